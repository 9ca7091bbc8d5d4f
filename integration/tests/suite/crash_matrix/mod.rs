//! An executor dies, or its disk becomes full, exactly at each durable step of the storage engine while statements of every
//! kind run. Afterwards the tables hold what was asked for, once, and its disk no file that nothing names.
mod disk;
mod load;

use std::{fs, path::Path, time::Duration};

use ancho_integration::{
    cluster::{
        executors_up,
        processes::{ProcessBuilder, Processes},
    },
    run, turns, wait_until,
};
use anyhow::{Context, ensure};
use uuid::Uuid;

use self::{disk::SmallDisk, load::Load};

/// Steps of writes of all kinds, in the order in which they meet them (`cayenne::Step`).
const STEPS: [&str; 14] = [
    "CreateFile",
    "FileCreated",
    "WriteBytes",
    "SyncFile",
    "VerifyFile",
    "SyncDirectory",
    "Seal",
    "Sealed",
    "Publish",
    "Published",
    "Rebase",
    "Discard",
    "DiscardFiles",
    "RemoveFile",
];
/// Steps that need room on the disk.
const HUNGRY: [&str; 9] =
    ["CreateFile", "FileCreated", "WriteBytes", "SyncFile", "SyncDirectory", "Seal", "Publish", "Rebase", "Discard"];
/// Rounds within which a step is met.
const ROUNDS: usize = 25;
/// The executor that suffers.
const VICTIM: usize = 0;
const VARIABLE: &str = "ANCHO_FAILPOINT";

async fn start() -> anyhow::Result<Processes> {
    let ttl = Duration::from_secs(3);
    ProcessBuilder::default().executors(2).partition_wait(Duration::from_secs(2)).session_ttl(ttl).start().await
}

/// How often each step is passed before it counts.
fn skips(seldom: bool) -> Vec<usize> {
    match std::env::var("ANCHO_GATE").as_deref() {
        Ok("full") if !seldom => vec![0, 1, 5, 17],
        _ if seldom => vec![0],
        _ => vec![3],
    }
}

fn is_seldom(step: &str) -> bool {
    matches!(step, "Rebase" | "Discard" | "DiscardFiles" | "RemoveFile")
}

/// Starts the victim anew with a failpoint.
async fn arm(cluster: &mut Processes, failpoint: &str) -> anyhow::Result<()> {
    cluster.kill_executor(VICTIM)?;
    cluster.set_executor_env(VICTIM, VARIABLE, Some(failpoint));
    cluster.start_executor(VICTIM)?;
    cluster.wait_ready().await
}

/// Starts it without one.
fn start_unarmed(cluster: &mut Processes) -> anyhow::Result<()> {
    cluster.set_executor_env(VICTIM, VARIABLE, None);
    cluster.start_executor(VICTIM)
}

/// Checks everything when all are up.
async fn recover(cluster: &mut Processes, load: &mut Load) -> anyhow::Result<()> {
    cluster.wait_ready().await?;
    load.finish().await?;
    load.check().await?;
    let partitions = cluster.executor_dir(VICTIM).join("partitions");
    wait_until("no file is left that nothing names", Duration::from_secs(15), || async {
        disk::check_tidy(&partitions).map(Some)
    })
    .await
}

#[test]
fn killed_at_every_step() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = start().await?;
        let mut load = Load::start(cluster.client(0)?, "kill").await?;
        for (step, skip) in STEPS.iter().flat_map(|step| skips(is_seldom(step)).into_iter().map(move |n| (step, n))) {
            let failpoint = format!("{step}:{skip}:kill");
            arm(&mut cluster, &failpoint).await?;
            for _ in 0..ROUNDS {
                load.round().await.with_context(|| failpoint.clone())?;
                if cluster.executor_ended(VICTIM)? || !load.is_done() {
                    break;
                }
            }
            let died = wait_until("the executor dies", Duration::from_secs(5), || {
                let ended = cluster.executor_ended(VICTIM);
                async move { ended.map(|ended| ended.then_some(())) }
            });
            died.await.with_context(|| format!("{failpoint} is never met"))?;
            start_unarmed(&mut cluster)?;
            recover(&mut cluster, &mut load).await.with_context(|| failpoint.clone())?;
        }
        killed_while_it_clears_up(&mut cluster, &mut load).await?;
        cluster.stop().await
    });
}

/// What an unfinished write left behind is removed at the start, which dies at it.
async fn killed_while_it_clears_up(cluster: &mut Processes, load: &mut Load) -> anyhow::Result<()> {
    cluster.kill_executor(VICTIM)?;
    let partitions = cluster.executor_dir(VICTIM).join("partitions");
    for partition in fs::read_dir(&partitions)? {
        plant_orphan(&partition?.path())?;
    }
    ensure!(disk::check_tidy(&partitions).is_err(), "files that nothing names are found");
    cluster.set_executor_env(VICTIM, VARIABLE, Some("RemoveOrphan:1:kill"));
    cluster.start_executor(VICTIM)?;
    wait_until("the executor dies", Duration::from_secs(20), || {
        let ended = cluster.executor_ended(VICTIM);
        async move { ended.map(|ended| ended.then_some(())) }
    })
    .await?;
    start_unarmed(cluster)?;
    recover(cluster, load).await.context("RemoveOrphan")
}

fn plant_orphan(partition: &Path) -> anyhow::Result<()> {
    let name = format!("{}.vortex", Uuid::now_v7().simple());
    fs::write(partition.join("files").join(name), b"left behind")?;
    Ok(())
}

#[test]
fn a_full_disk_at_every_step() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = start().await?;
        let dir = cluster.executor_dir(VICTIM).to_owned();
        cluster.stop_executor(VICTIM).await?;
        let Some(small) = SmallDisk::mount_over(&dir, 96 << 20)? else {
            println!("this user may not mount a small disk; nothing is shown");
            return cluster.stop().await;
        };
        cluster.start_executor(VICTIM)?;
        cluster.wait_ready().await?;
        let client = cluster.client(0)?;
        let mut load = Load::start(client.clone(), "full").await?;
        for (step, skip) in HUNGRY.iter().flat_map(|step| skips(is_seldom(step)).into_iter().map(move |n| (step, n))) {
            let failpoint = format!("{step}:{skip}:fill");
            arm(&mut cluster, &failpoint).await?;
            for _ in 0..ROUNDS {
                load.round().await.with_context(|| failpoint.clone())?;
                if small.is_full() || !load.is_done() {
                    break;
                }
            }
            ensure!(small.is_full(), "{failpoint} is never met");
            cluster.check_alive().with_context(|| failpoint.clone())?;
            // It starts on a disk without a free byte, and by itself goes on when there is room again.
            cluster.kill_executor(VICTIM)?;
            start_unarmed(&mut cluster)?;
            wait_until("it is up on a full disk", Duration::from_secs(20), || async {
                Ok((executors_up(&client.status().await?)? == 2).then_some(()))
            })
            .await
            .with_context(|| failpoint.clone())?;
            cluster.check_alive()?;
            small.make_room()?;
            recover(&mut cluster, &mut load).await.with_context(|| failpoint.clone())?;
        }
        cluster.stop().await
    });
}
