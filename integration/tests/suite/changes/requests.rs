//! What became of a request: a repeated one is applied once, and a client can look it up.
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::ensure;

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
        ensure!(asking("no visible\u{7f} text").is_err() || asking("a b")?.update(raise).await.is_err());
        cluster.stop().await
    });
}
