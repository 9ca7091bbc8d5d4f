//! What every query session has in common, on schedulers and on executors.
//!
//! The query library starts a worker's session from default options and sends only its own settings along. Options that
//! change results or resource use at run time must therefore travel with the query: they go as one header.
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use datafusion::{
    config::ConfigOptions,
    execution::{
        SessionStateBuilder,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionConfig,
};
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    channels::Channels,
    codec::AnchoCodec,
    host::{HostExtension, ScanHost},
    pace::EndOfTask,
    router::{AssignerExtension, PartitionAssigner},
    running::RunningQueries,
};
use crate::{
    compute::end_of_call,
    error::{Error, Result},
    exact,
    object_stores::ObjectStores,
    partition::functions,
    spec::source::S3Options,
};

/// Header that carries changed options, as a JSON object.
pub const OPTIONS_HEADER: &str = "x-ancho-options";

/// Largest options header; HTTP/2 peers refuse larger header blocks.
const MAX_OPTIONS_BYTES: usize = 8 * 1024;

/// The release of the distribution library, which does not tell its own.
const DISTRIBUTED_VERSION: &str = "4.0.0";

/// Version of what plans mean beside the libraries' part: our nodes and their bytes, our functions, the states of our
/// aggregates. To be raised with every change of these: builds of one release may differ in them.
const PLAN_VERSION: u32 = 4;

/// Processes exchange plans only if this is the same for both.
#[must_use]
pub fn plan_key() -> String {
    format!(
        "ancho-{}.{PLAN_VERSION}/datafusion-{}/distributed-{DISTRIBUTED_VERSION}",
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION
    )
}

/// Settings that every session needs for right answers over distributed plans.
pub fn apply_safe_defaults(config: &mut SessionConfig) {
    let options = config.options_mut();
    // Order does not survive a shuffle between processes, so no plan may rely on an input's order there.
    options.optimizer.prefer_existing_sort = false;
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    options.optimizer.preserve_file_partitions = 0;
    exact::configure(options);
}

/// Options that differ from the defaults, as the header for a query's tasks.
///
/// # Errors
/// They are too many for a header.
pub fn options_header(options: &ConfigOptions) -> Result<HeaderMap> {
    static DEFAULTS: LazyLock<BTreeMap<String, Option<String>>> =
        LazyLock::new(|| ConfigOptions::default().entries().into_iter().map(|e| (e.key, e.value)).collect());
    let changed: BTreeMap<String, String> = options
        .entries()
        .into_iter()
        .filter(|e| e.key.starts_with("datafusion.") && DEFAULTS.get(&e.key).is_some_and(|d| *d != e.value))
        .filter_map(|e| e.value.map(|v| (e.key, v)))
        .collect();
    let text = serde_json::to_string(&changed).map_err(|e| Error::internal(e.to_string()))?;
    if text.len() > MAX_OPTIONS_BYTES {
        return Err(Error::invalid(format!("the session's changed options take {} bytes; reset some", text.len())));
    }
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&text)
        .map_err(|_| Error::invalid("a session option has a value that is not printable ASCII"))?;
    headers.insert(HeaderName::from_static(OPTIONS_HEADER), value);
    Ok(headers)
}

/// Header that carries how a dataset's buckets are reached. Secrets in it are references to variables wherever the
/// dataset wrote them so; each process puts in its own values.
const S3_HEADER: &str = "x-ancho-s3";

/// How a dataset's buckets are reached, for the tasks of a plan.
///
/// # Errors
/// An option has a value that is not printable ASCII.
pub fn s3_header(options: &S3Options) -> Result<HeaderMap> {
    let text = serde_json::to_string(options).map_err(|e| Error::internal(e.to_string()))?;
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Error::invalid("an S3 option has a value that is not printable ASCII"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(HeaderName::from_static(S3_HEADER), value)]))
}

/// The same memory and spill space, with buckets reached as a dataset says.
///
/// # Errors
/// Never with the settings used here; the library's signature allows it.
pub fn runtime_with_s3(runtime: &Arc<RuntimeEnv>, options: &S3Options) -> Result<Arc<RuntimeEnv>> {
    let builder = RuntimeEnvBuilder::from_runtime_env(runtime)
        .with_object_store_registry(Arc::new(ObjectStores::new(options.clone())));
    Ok(builder.build_arc()?)
}

fn apply_options(config: &mut SessionConfig, headers: &HeaderMap) -> Result<()> {
    let Some(value) = headers.get(OPTIONS_HEADER) else { return Ok(()) };
    let changed: BTreeMap<String, String> = serde_json::from_slice(value.as_bytes())
        .map_err(|e| Error::internal(format!("the options of a query cannot be read: {e}")))?;
    for (key, value) in changed {
        // An option of a newer release is not ours to apply.
        if let Err(error) = config.options_mut().set(&key, &value) {
            tracing::warn!(%key, %value, %error, "a query's option is not known here");
        }
    }
    Ok(())
}

/// What a process brings to the tasks that run in it.
#[derive(Debug, Clone)]
pub struct WorkerParts {
    /// Its partitions, on an executor.
    pub host: Option<Arc<dyn ScanHost>>,
    /// Places rows of new partitions.
    pub assigner: Arc<dyn PartitionAssigner>,
    /// Connections to other processes.
    pub channels: Channels,
    /// Memory and spill space, shared by all queries of the process.
    pub runtime: Arc<RuntimeEnv>,
    /// Queries that this process began.
    pub running: RunningQueries,
}

/// The part of a process that runs tasks of distributed plans.
#[must_use]
pub fn worker(parts: WorkerParts) -> Worker {
    let runtime = Arc::clone(&parts.runtime);
    Worker::from_session_builder(move |context: WorkerQueryContext| {
        let parts = parts.clone();
        async move { Ok(worker_session(context, &parts)?.build()) }
    })
    .with_runtime_env(runtime)
    .with_version(plan_key())
}

fn worker_session(context: WorkerQueryContext, parts: &WorkerParts) -> Result<SessionStateBuilder> {
    let mut builder = context.builder;
    let config = builder.config().get_or_insert_default();
    apply_safe_defaults(config);
    apply_options(config, &context.headers)?;
    extend(config, parts)?;
    if let Some(value) = context.headers.get(S3_HEADER) {
        let options: S3Options = serde_json::from_slice(value.as_bytes())
            .map_err(|e| Error::internal(format!("the S3 options of a query cannot be read: {e}")))?;
        builder = builder.with_runtime_env(runtime_with_s3(&parts.runtime, &options)?);
    }
    if let Some(end) = end_of_call().or_else(|| parts.running.end_of(&context.headers)) {
        builder.config().get_or_insert_default().set_extension(Arc::new(EndOfTask(end)));
    }
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.extend(functions::all());
    functions.extend(exact::functions());
    builder.aggregate_functions().get_or_insert_default().extend(exact::aggregates());
    Ok(builder)
}

/// Puts the process's parts into a session.
///
/// # Errors
/// Never with the settings used here; the library's signature allows it.
pub fn extend(config: &mut SessionConfig, parts: &WorkerParts) -> Result<()> {
    let codec = match &parts.host {
        Some(host) => {
            config.set_extension(Arc::new(HostExtension(Arc::clone(host))));
            AnchoCodec::executor(Arc::clone(host))
        }
        None => AnchoCodec::coordinator(),
    };
    config.set_extension(Arc::new(AssignerExtension(Arc::clone(&parts.assigner))));
    config.set_extension(Arc::new(parts.channels.clone()));
    config.set_distributed_user_codec(codec);
    config.set_distributed_channel_resolver(parts.channels.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::function::StateFieldsArgs;
    use xxhash_rust::xxh64::xxh64;

    use super::*;
    use crate::plan::codec;

    /// What the versions were, each with a hash of [`surface`]. A new one gets a new line; those before stay.
    const VERSIONS: &[(u32, u64)] = &[
        (1, 11_120_757_863_808_566_995),
        (2, 17_333_503_445_540_219_426),
        (3, 8_202_810_894_827_206_440),
        (4, 6_657_374_136_704_965_249),
    ];

    /// What is ours in a plan, as text.
    fn surface() -> String {
        let mut lines =
            vec![format!("{:?}", codec::TAGS), include_str!("../../../proto/proto/ancho/v1/plan.proto").to_owned()];
        for function in functions::all().into_iter().chain(exact::functions()) {
            lines.push(format!("{} {:?} {:?}", function.name(), function.signature(), function.aliases()));
        }
        let types = [
            DataType::Int64,
            DataType::UInt64,
            DataType::Float64,
            DataType::Decimal128(12, 2),
            DataType::Decimal256(50, 2),
        ];
        for aggregate in exact::aggregates() {
            lines.push(format!("{} {:?}", aggregate.name(), aggregate.signature()));
            for data_type in &types {
                let Ok(returned) = aggregate.return_type(std::slice::from_ref(data_type)) else { continue };
                for is_distinct in [false, true] {
                    let state = aggregate.state_fields(StateFieldsArgs {
                        name: "x",
                        input_fields: &[Arc::new(Field::new("v", data_type.clone(), true))],
                        return_field: Arc::new(Field::new("x", returned.clone(), true)),
                        ordering_fields: &[],
                        is_distinct,
                    });
                    let state: Vec<String> = state.unwrap().iter().map(|f| f.data_type().to_string()).collect();
                    lines.push(format!("{data_type} {is_distinct} -> {returned} by {state:?}"));
                }
            }
        }
        lines.join("\n")
    }

    #[test]
    fn what_plans_are_made_of_changes_with_its_version_only() {
        let text = surface();
        let hash = xxh64(text.as_bytes(), 0);
        assert_eq!(
            VERSIONS.last(),
            Some(&(PLAN_VERSION, hash)),
            "nodes, functions or states of aggregates are others than version {PLAN_VERSION} had: raise PLAN_VERSION and \
             add a line to VERSIONS\n{text}"
        );
        assert!(VERSIONS.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1), "{VERSIONS:?}");
        assert!(plan_key().contains(&format!(".{PLAN_VERSION}/")), "{}", plan_key());
    }

    #[test]
    fn the_library_is_the_release_that_the_key_names() {
        let locked = format!("name = \"datafusion-distributed\"\nversion = \"{DISTRIBUTED_VERSION}\"");
        assert!(include_str!("../../../Cargo.lock").contains(&locked));
    }
}
