//! Files of a real S3 server, read by executors as processes.
use ancho_integration::{cluster::processes::ProcessBuilder, object_store::S3Server, run, sources::write_file, turns};
use anyhow::ensure;

use super::{SpecText, apply, check_rows, integer, rows_sql};

const PARQUET: (&str, &str) = ("file_format", "parquet");

#[test]
fn objects_of_a_bucket() {
    run(async {
        let _turn = turns::shared().await?;
        let server = S3Server::start().await?;
        let sources = tempfile::tempdir()?;
        for (i, (first, last)) in [(1, 100), (101, 250), (251, 300)].into_iter().enumerate() {
            for extension in ["parquet", "csv"] {
                let path = sources.path().join(format!("part-{i}.{extension}"));
                write_file(&path, &rows_sql(first, last)).await?;
                server.upload(&path, &format!("{extension}/part-{i}.{extension}")).await?;
            }
        }
        // Beside the folder, with a name that starts like it.
        server.upload(&sources.path().join("part-0.parquet"), "parquet-old/part-0.parquet").await?;

        let mut builder = ProcessBuilder::default().executors(2).env("WRONG_SECRET", "not-the-secret");
        for (name, value) in server.environment() {
            builder = builder.env(name, &value);
        }
        let cluster = builder.start().await?;
        let client = cluster.client(0)?;
        let bucket = S3Server::BUCKET;
        let spec = SpecText::new()
            .dataset("s_folder", &format!("s3://{bucket}/parquet/"), &[PARQUET], &["bucket(4, id)"])
            .dataset("s_glob", &format!("s3://{bucket}/parquet/part-[01].parquet"), &[PARQUET], &["k"])
            .dataset("s_folders", &format!("s3://{bucket}/p[a]rq*t/part-?.parquet"), &[PARQUET], &["k"])
            .dataset("s_object", &format!("s3://{bucket}/parquet/part-0.parquet"), &[], &[])
            .dataset("s_csv", &format!("s3://{bucket}/csv/"), &[("file_format", "csv")], &["bucket(3, id)"]);
        apply(&client, &spec, "created").await?;
        for (table, last) in [("s_folder", 300), ("s_glob", 250), ("s_folders", 300), ("s_object", 100), ("s_csv", 300)]
        {
            check_rows(&client, table, last).await?;
        }
        apply(&client, &spec, "unchanged").await?;

        // The same with everything in the dataset's parameters.
        let endpoint = server.endpoint();
        let parameters = [
            PARQUET,
            ("s3_endpoint", endpoint.as_str()),
            ("s3_region", S3Server::REGION),
            ("s3_key", "${env:AWS_ACCESS_KEY_ID}"),
            ("s3_secret", "${env:AWS_SECRET_ACCESS_KEY}"),
            ("allow_http", "true"),
        ];
        let explicit = SpecText::new().dataset("s_given", &format!("s3://{bucket}/parquet/"), &parameters, &["k"]);
        apply(&client, &explicit, "created").await?;
        check_rows(&client, "s_given", 300).await?;

        // The other way, and back.
        let options = "s3_endpoint '{e}', s3_region '{r}', s3_key '${env:AWS_ACCESS_KEY_ID}', \
                       s3_secret '${env:AWS_SECRET_ACCESS_KEY}', allow_http true"
            .replace("{e}", &endpoint)
            .replace("{r}", S3Server::REGION);
        for name in ["copy.parquet", "copy.csv"] {
            let place = format!("'s3://{bucket}/out/{name}' ({options})");
            ensure!(client.update(&format!("COPY s_given TO {place}")).await? == 300, "{name}");
            let again = client.update(&format!("COPY s_given TO {place}")).await;
            ensure!(again.is_err_and(|f| f.error.message.contains("exists already")), "{name}");
            client.update("CREATE TABLE s_back AS SELECT * FROM s_given WHERE false").await?;
            ensure!(client.update(&format!("COPY s_back FROM {place}")).await? == 300, "{name}");
            check_rows(&client, "s_back", 300).await?;
            client.update("DROP TABLE s_back").await?;
        }

        // A wrong key is an error, not an empty table.
        let wrong = parameters.map(|(k, v)| if k == "s3_secret" { (k, "${env:WRONG_SECRET}") } else { (k, v) });
        let wrong = SpecText::new().dataset("s_wrong", &format!("s3://{bucket}/parquet/"), &wrong, &["k"]);
        let refused = client.apply(&wrong.0).await;
        ensure!(refused.as_ref().is_err_and(|f| f.from_server), "{refused:?}");
        for secret in [S3Server::SECRET, "not-the-secret"] {
            ensure!(!format!("{refused:?}").contains(secret), "{refused:?}");
        }
        // What is written out does not get into the log.
        let literal = parameters.map(|(k, v)| if k == "s3_secret" { (k, S3Server::SECRET) } else { (k, v) });
        let literal = SpecText::new().dataset("s_literal", &format!("s3://{bucket}/parquet/"), &literal, &["k"]);
        let refused = client.apply(&literal.0).await;
        ensure!(refused.as_ref().is_err_and(|f| f.error.message.contains("${env:NAME}")), "{refused:?}");
        ensure!(!format!("{refused:?}").contains(S3Server::SECRET));
        let rows = integer(&client, "SELECT count(*) FROM s_wrong").await;
        ensure!(rows.is_err() || rows.as_ref().is_ok_and(|n| *n == 0), "{rows:?}");
        cluster.stop().await
    });
}
