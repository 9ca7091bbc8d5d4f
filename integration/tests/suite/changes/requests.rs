//! What became of a request: a repeated one is applied once, and a client can look it up.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};

#[test]
fn a_request_with_its_own_id_is_applied_once() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE r (k BIGINT, v BIGINT) PARTITION BY (bucket(2, k))").await?;
        let asking =
            |id: &str| -> anyhow::Result<Client> { Ok(cluster.client()?.with_header("x-ancho-request-id", id)?) };
        let insert = "INSERT INTO r VALUES (1, 1), (2, 2)";
        ensure!(asking("first")?.update(insert).await? == 2);
        ensure!(asking("first")?.update(insert).await? == 2);
        ensure!(asking("second")?.update(insert).await? == 2);
        let raise = "UPDATE r SET v = v + 1 WHERE k = 1";
        for _ in 0..3 {
            ensure!(asking("raise")?.update(raise).await? == 2);
        }
        // Without an id of its own, every statement is another request.
        client.update(raise).await?;
        client.update(raise).await?;
        ensure!(single_integer(&client.query("SELECT sum(v) FROM r").await?)? == 6 + 2 + 4);
        let known = "SELECT sum(rows) FROM system.writes WHERE request_id IN ('first', 'raise') AND table_name = 'r'";
        ensure!(single_integer(&client.query(known).await?)? == 4);
        ensure!(single_integer(&client.query("SELECT count(*) FROM system.writes").await?)? == 5);
        // A request that found nothing is applied once, too: rows that come later are not its own.
        let late = "DELETE FROM r WHERE k = 9";
        ensure!(asking("late")?.update(late).await? == 0);
        client.update("INSERT INTO r VALUES (9, 9)").await?;
        ensure!(asking("late")?.update(late).await? == 0);
        ensure!(single_integer(&client.query("SELECT count(*) FROM r WHERE k = 9").await?)? == 1);
        ensure!(asking("none")?.update("TRUNCATE TABLE empty").await.is_err());
        client.update("CREATE TABLE empty (k BIGINT)").await?;
        ensure!(asking("none")?.update("TRUNCATE TABLE empty").await? == 0);
        client.update("INSERT INTO empty VALUES (1)").await?;
        ensure!(asking("none")?.update("TRUNCATE TABLE empty").await? == 0);
        ensure!(single_integer(&client.query("SELECT count(*) FROM empty").await?)? == 1);
        // One id is for one statement.
        for other in
            ["DELETE FROM r", "INSERT INTO empty VALUES (1)", "DROP TABLE r", "CREATE TABLE u AS SELECT 1 AS a"]
        {
            let refused = asking("first")?.update(other).await.err();
            let refused = refused.with_context(|| format!("{other} was taken for another statement"))?;
            ensure!(refused.error.kind == ErrorKind::Invalid && refused.error.message.contains("first"), "{refused}");
        }
        ensure!(single_integer(&client.query("SELECT count(*) FROM r").await?)? == 5);
        // Tables are made and dropped once.
        for (id, statement) in [
            ("make", "CREATE TABLE d (k BIGINT)"),
            ("maybe", "CREATE TABLE IF NOT EXISTS d AS SELECT 1 AS k"),
            ("name", "ALTER TABLE d RENAME TO e"),
            ("away", "DROP TABLE IF EXISTS d, e"),
        ] {
            ensure!(asking(id)?.update(statement).await? == 0);
            ensure!(asking(id)?.update(statement).await? == 0, "{statement}");
        }
        client.update("CREATE TABLE e AS SELECT 1 AS k").await?;
        ensure!(asking("away")?.update("DROP TABLE IF EXISTS d, e").await? == 0);
        ensure!(single_integer(&client.query("SELECT count(*) FROM e").await?)? == 1);
        // Inside a transaction the id is that of the commit, whatever is sent with it.
        let open = asking("whole")?.begin().await?;
        open.update("CREATE TABLE w AS SELECT 1 AS k").await?;
        open.update("INSERT INTO w VALUES (2)").await?;
        open.commit().await?;
        ensure!(single_integer(&client.query("SELECT count(*) FROM w").await?)? == 2);
        ensure!(asking("whole")?.update("DELETE FROM w").await.is_err_and(|e| e.kind() == ErrorKind::Invalid));
        ensure!(asking("no visible\u{7f} text").is_err() || asking("a b")?.update(raise).await.is_err());
        cluster.stop().await
    });
}
