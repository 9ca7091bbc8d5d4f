//! Every Flight SQL command and action (cases F08, F10, F16, F23 and more).
use std::{sync::atomic::Ordering, time::Duration};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{DataType, Field, Int32Type, Schema, UInt32Type},
    ipc::convert::try_schema_from_flatbuffer_bytes,
};
use arrow_flight::{
    Action, Empty, FlightDescriptor, IpcMessage, Ticket,
    sql::{
        CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
        CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, CommandStatementIngest, CommandStatementQuery,
        CommandStatementUpdate, EndTransaction, ProstMessageExt, SqlInfo,
    },
};
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use prost::Message;
use tonic::Code;

use super::{Setup, rows, status, texts};

#[tokio::test]
async fn updates_are_applied_once_however_often_their_count_is_fetched() {
    let mut setup = Setup::new().await;
    let (_, batch) = setup.query("SELECT id, name FROM t ORDER BY id").await.unwrap();
    assert_eq!(texts(&batch, 1), ["one", "two", "three"]);

    let insert = "INSERT INTO t VALUES (4, 'four'), (5, 'five')";
    let prepared = setup.client.prepare(insert.to_string(), None).await.unwrap();
    let command = CommandStatementQuery { query: insert.to_string(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    setup.client.inner_mut().get_schema(descriptor).await.unwrap();
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 0, "planning applies nothing");
    prepared.close().await.unwrap();
    let info = setup.client.execute(insert.to_string(), None).await.unwrap();
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 1, "applied even if nobody fetches the count");
    rows(&mut setup.client, info.clone()).await.unwrap();
    let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(*schema, Schema::new(vec![Field::new("count", DataType::Int64, false)]));
    assert_eq!(texts(&batch, 0), ["2"]);
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 1);

    assert_eq!(setup.client.execute_update(insert.to_string(), None).await.unwrap(), 2);
    assert_eq!(setup.client.execute_update("CREATE TABLE n (x INT)".to_string(), None).await.unwrap(), 0);
    let (_, batch) = setup.query("SELECT count(*) FROM t").await.unwrap();
    assert_eq!(texts(&batch, 0), ["7"]);
    setup.handle.shutdown().await;
}

#[tokio::test]
async fn an_update_outlives_its_client() {
    let mut setup = Setup::new().await;
    let update = setup.client.execute_update("SLOW UPDATE".to_string(), None);
    assert!(tokio::time::timeout(Duration::from_millis(50), update).await.is_err());
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 0);
    for _ in 0..100 {
        if setup.double.updates.load(Ordering::SeqCst) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the update was dropped with its client");
}

#[tokio::test]
async fn the_schema_can_be_asked_for_alone() {
    let mut setup = Setup::new().await;
    let command = CommandStatementQuery { query: "SELECT name, id FROM t".to_string(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let result = setup.client.inner_mut().get_schema(descriptor).await.unwrap().into_inner();
    let schema = Schema::try_from(IpcMessage(result.schema)).unwrap();
    assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
    assert!(!schema.field(1).is_nullable());
}

#[tokio::test]
async fn tables_are_filtered_by_patterns_and_sorted() {
    let mut setup = Setup::new().await;
    let all = ["A", "aXb", "a_b", "t", "v"];
    let pattern = |p: &str| Some(p.to_string());
    for (catalog, schema, table, types, expected) in [
        (None, None, None, vec![], &all[..]),
        (None, None, pattern("%"), vec![], &all[..]),
        (None, None, pattern("a_b"), vec![], &["aXb", "a_b"][..]),
        (None, None, pattern("a\\_b"), vec![], &["a_b"][..]),
        (None, None, pattern("A"), vec![], &["A"][..]),
        (None, None, pattern(""), vec![], &[][..]),
        (None, pattern("pub%"), None, vec!["VIEW"], &["v"][..]),
        (None, pattern(""), None, vec![], &[][..]),
        (pattern("datafusion"), None, None, vec!["TABLE", "VIEW"], &all[..]),
        (pattern("data%"), None, None, vec![], &[][..]),
        (pattern(""), None, None, vec![], &[][..]),
        (None, None, None, vec!["SYSTEM"], &[][..]),
    ] {
        let command = CommandGetTables {
            catalog,
            db_schema_filter_pattern: schema,
            table_name_filter_pattern: table,
            table_types: types.into_iter().map(String::from).collect(),
            include_schema: false,
        };
        let info = setup.client.get_tables(command.clone()).await.unwrap();
        let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(texts(&batch, 2), expected, "{command:?}");
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["catalog_name", "db_schema_name", "table_name", "table_type"]);
    }
}

#[tokio::test]
async fn tables_carry_a_schema_without_views() {
    let mut setup = Setup::new().await;
    let command =
        CommandGetTables { table_name_filter_pattern: Some("t".into()), include_schema: true, ..Default::default() };
    let info = setup.client.get_tables(command).await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    let bytes = batch.column(4).as_binary::<i32>().value(0).to_vec();
    let schema = Schema::try_from(IpcMessage(Bytes::from(bytes))).unwrap();
    let expected =
        Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)]);
    assert_eq!(schema, expected);
    assert!(try_schema_from_flatbuffer_bytes(&[]).is_err());
}

#[tokio::test]
async fn catalogs_schemas_and_table_types_are_listed() {
    let mut setup = Setup::new().await;
    let info = setup.client.get_catalogs().await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(texts(&batch, 0), ["datafusion"]);
    for (catalog, pattern, expected) in [
        (None, None, &["empty", "public"][..]),
        (Some("datafusion"), Some("p_blic"), &["public"][..]),
        (Some("x%"), None, &[][..]),
        (None, Some("%m%"), &["empty"][..]),
    ] {
        let command = CommandGetDbSchemas {
            catalog: catalog.map(String::from),
            db_schema_filter_pattern: pattern.map(String::from),
        };
        let info = setup.client.get_db_schemas(command).await.unwrap();
        let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(texts(&batch, 1), expected);
        assert_eq!(schema.field(0).name(), "catalog_name");
        assert_eq!(schema.field(1).name(), "db_schema_name");
    }
    let info = setup.client.get_table_types().await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(texts(&batch, 0), ["TABLE", "VIEW"]);
}

#[tokio::test]
async fn keys_have_the_schema_of_the_protocol() {
    let mut setup = Setup::new().await;
    let command = CommandGetPrimaryKeys { catalog: None, db_schema: Some("public".into()), table: "t".into() };
    let info = setup.client.get_primary_keys(command).await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(texts(&batch, 3), ["name", "id"]);
    assert_eq!(texts(&batch, 4), ["t_pkey", "t_pkey"]);
    assert_eq!(batch.column(5).as_primitive::<Int32Type>().values(), &[1, 2]);

    let (table, none) = ("t".to_string(), None::<String>);
    let exported = CommandGetExportedKeys { catalog: none.clone(), db_schema: none.clone(), table: table.clone() };
    let imported = CommandGetImportedKeys { catalog: none.clone(), db_schema: none.clone(), table: table.clone() };
    let cross = CommandGetCrossReference {
        pk_catalog: none.clone(),
        pk_db_schema: none.clone(),
        pk_table: table.clone(),
        fk_catalog: none.clone(),
        fk_db_schema: none,
        fk_table: table,
    };
    let infos = [
        setup.client.get_exported_keys(exported).await.unwrap(),
        setup.client.get_imported_keys(imported).await.unwrap(),
        setup.client.get_cross_reference(cross).await.unwrap(),
    ];
    for info in infos {
        let (schema, batch) = rows(&mut setup.client, info).await.unwrap();
        assert_eq!(batch.num_rows(), 0);
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let expected = "pk_catalog_name pk_db_schema_name pk_table_name pk_column_name fk_catalog_name fk_db_schema_name \
                        fk_table_name fk_column_name key_sequence fk_key_name pk_key_name update_rule delete_rule";
        assert_eq!(names.join(" "), expected);
        assert_eq!(schema.field(8).data_type(), &DataType::Int32);
        assert_eq!(schema.field(12).data_type(), &DataType::UInt8);
    }
}

#[tokio::test]
async fn server_and_types_describe_themselves() {
    let mut setup = Setup::new().await;
    let asked = vec![SqlInfo::FlightSqlServerReadOnly, SqlInfo::FlightSqlServerName];
    let info = setup.client.get_sql_info(asked).await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(batch.column(0).as_primitive::<UInt32Type>().values(), &[0, 3]);
    let info = setup.client.get_sql_info(Vec::new()).await.unwrap();
    let (_, batch) = rows(&mut setup.client, info).await.unwrap();
    assert!(batch.num_rows() > 50);

    let info = setup.client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.unwrap();
    let (_, all) = rows(&mut setup.client, info).await.unwrap();
    let codes = all.column(1).as_primitive::<Int32Type>().values().to_vec();
    assert!(codes.is_sorted() && codes.len() > 10);
    let info = setup.client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: Some(-5) }).await.unwrap();
    let (_, one) = rows(&mut setup.client, info).await.unwrap();
    assert_eq!(texts(&one, 0), ["BIGINT"]);
}

#[tokio::test]
async fn actions_pass_through() {
    let mut setup = Setup::new().await;
    let listed: Vec<_> =
        setup.client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner().try_collect().await.unwrap();
    assert!(listed.iter().any(|action| action.r#type == "ancho.apply"));
    let mut call = async |name: &str, body: &'static str| {
        let action = Action { r#type: name.to_string(), body: body.into() };
        let results: Vec<_> = setup.client.do_action(action).await.map_err(status)?.try_collect().await?;
        Ok::<_, tonic::Status>(results.into_iter().map(|r| r.body).collect::<Vec<_>>())
    };
    assert_eq!(call("ancho.apply", "a: 1").await.unwrap(), ["{\"applied\":4}"]);
    assert_eq!(call("ancho.cluster_status", "").await.unwrap(), ["{\"schedulers\":[]}"]);
    assert_eq!(call("ancho.nothing", "").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(call("nothing", "").await.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(call("CreatePreparedStatement", "garbage").await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn any_user_gets_a_token() {
    let mut setup = Setup::new().await;
    let token = setup.client.handshake("someone", "secret").await.unwrap();
    assert_eq!(setup.client.token().unwrap().as_bytes(), token);
    setup.query("SELECT 1").await.unwrap();
    setup.client.set_token("not a token of ours".to_string());
    setup.query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn what_is_not_offered_is_refused_as_unsupported() {
    let mut setup = Setup::new().await;
    let begun = setup.client.begin_transaction().await;
    assert_eq!(status(begun.unwrap_err()).code(), Code::Unimplemented);
    let ended = setup.client.end_transaction(Bytes::from_static(b"1"), EndTransaction::Commit).await;
    assert_eq!(status(ended.unwrap_err()).code(), Code::Unimplemented);
    let inside = Some(Bytes::from_static(b"\xff"));
    let read = setup.client.execute("SELECT 1".into(), inside).await;
    assert_eq!(status(read.unwrap_err()).code(), Code::InvalidArgument);
    let inside = Some(Bytes::from_static(b"1"));
    let read = setup.client.execute("SELECT 1".into(), inside.clone()).await;
    assert_eq!(status(read.unwrap_err()).code(), Code::Unimplemented);
    let written = setup.client.execute_update("INSERT INTO t VALUES (9, 'x')".into(), inside).await;
    assert_eq!(status(written.unwrap_err()).code(), Code::Unimplemented);
    assert_eq!(setup.double.updates.load(Ordering::SeqCst), 0);

    let (_, batch) = setup.query("SELECT id FROM t").await.unwrap();
    let ingest = CommandStatementIngest { table: "t".into(), ..Default::default() };
    let ingested = setup.client.execute_ingest(ingest, stream::iter([Ok::<RecordBatch, _>(batch)])).await;
    assert_eq!(status(ingested.unwrap_err()).code(), Code::Unimplemented);

    let update = CommandStatementUpdate { query: "SELECT 1".into(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(update.as_any().encode_to_vec());
    let info = setup.client.inner_mut().get_flight_info(descriptor).await;
    assert_eq!(info.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn errors_keep_code_and_stay_short() {
    let mut setup = Setup::new().await;
    let error = status(setup.query("SELEC 1").await.unwrap_err());
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.metadata().get("x-ancho-sqlstate").unwrap(), "42000");
    assert_eq!(error.metadata().get("x-ancho-retryable").unwrap(), "false");

    let long = format!("SELECT \"{}\" FROM t", "ä\n%".repeat(300_000));
    let error = status(setup.query(&long).await.unwrap_err());
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().len() < 4096 && error.message().ends_with("(cut)"));

    for garbage in [&b"garbage"[..], b""] {
        let fetched = setup.client.do_get(Ticket::new(garbage)).await;
        let code = status(fetched.err().unwrap()).code();
        assert!(matches!(code, Code::InvalidArgument | Code::Unimplemented), "{code}");
    }
}

#[tokio::test]
async fn an_error_after_the_first_rows_is_typed() {
    let mut setup = Setup::new().await;
    let error = status(setup.query("FAIL LATE").await.unwrap_err());
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("partition 3 lost its executor"));
    let read: ancho_common::error::Error = error.into();
    assert!(read.kind.retryable());
}
