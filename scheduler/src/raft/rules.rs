//! Who may form a group, and whose messages are taken: pure decisions, without I/O.
//!
//! A directory has an *incarnation*, drawn when it was made, and the group's member list holds the incarnation of each
//! member. So a node whose directory was wiped is a stranger to its old group even under its old number: it cannot
//! help a candidate that lacks what the lost directory had acknowledged.
use std::collections::BTreeMap;

use super::{
    error::{Error, Result},
    identity::Identity,
    types::Node,
    wire::{Envelope, Introduction},
};

/// Checks what a peer says of itself against this node's directory.
///
/// # Errors
/// The peer is another node than listed, belongs to another cluster, or its group knows this node by another
/// incarnation.
pub(super) fn check_peer(own: &Identity, expected: u64, url: &str, peer: &Introduction) -> Result<()> {
    if peer.node_id != expected {
        return Err(Error::PeerId { url: url.to_owned(), expected, reported: peer.node_id });
    }
    if let Some(stored) = own.cluster_id()
        && !peer.cluster_id.is_empty()
        && peer.cluster_id != stored
    {
        return Err(Error::ClusterId {
            path: own.data_dir.to_path_buf(),
            stored: stored.to_owned(),
            peer: expected,
            url: url.to_owned(),
            reported: peer.cluster_id.clone(),
        });
    }
    if peer.members.is_empty() {
        return Ok(());
    }
    let known = peer.members.get(&own.node_id).map_or("", |member| member.incarnation.as_str());
    if known == &*own.incarnation {
        return Ok(());
    }
    Err(Error::Incarnation {
        path: own.data_dir.to_path_buf(),
        node: own.node_id,
        own: own.incarnation.to_string(),
        expected: known.to_owned(),
        peer: expected,
        url: url.to_owned(),
        cluster: peer.cluster_id.clone(),
    })
}

/// The first member list, once it may be written: every peer was reached, none has a log, all are configured with the
/// same peers, and this node has the lowest number. `peers` are the introductions of all others.
pub(super) fn first_members(
    own: &Identity,
    urls: &BTreeMap<u64, String>,
    peers: &BTreeMap<u64, Introduction>,
) -> Option<BTreeMap<u64, Node>> {
    if urls.keys().next() != Some(&own.node_id) {
        return None;
    }
    let mut members = BTreeMap::new();
    for (id, url) in urls {
        if *id == own.node_id {
            members.insert(*id, own.as_member(url));
            continue;
        }
        let peer = peers.get(id)?;
        if peer.has_log || !peer.members.is_empty() || !peer.configured.iter().eq(urls.keys()) {
            return None;
        }
        members.insert(*id, Node { url: url.clone(), incarnation: peer.incarnation.clone() });
    }
    Some(members)
}

/// Whether a consensus message may be handed to the log: it is meant for this very directory, and comes from one that
/// the member list knows. `members` is empty before this node has heard of the group.
///
/// # Errors
/// Says which of the two does not fit.
pub(super) fn admit<T>(own: &Identity, members: &BTreeMap<u64, Node>, envelope: &Envelope<T>) -> Result<()> {
    let refuse = |why: String| Err(Error::Refused(why));
    if envelope.to != own.node_id {
        return refuse(format!("it is for node {}, this is node {}", envelope.to, own.node_id));
    }
    if envelope.to_incarnation != *own.incarnation {
        return refuse(format!(
            "node {} is in the group with incarnation {}, but its directory {} has {}: it was wiped or replaced",
            own.node_id,
            envelope.to_incarnation,
            own.data_dir.display(),
            own.incarnation
        ));
    }
    if let Some(known) = own.cluster_id()
        && !envelope.cluster_id.is_empty()
        && envelope.cluster_id != known
    {
        return refuse(format!("it comes from cluster {}, node {} is in {known}", envelope.cluster_id, own.node_id));
    }
    if let Some(sender) = members.get(&envelope.from)
        && sender.incarnation != envelope.from_incarnation
    {
        return refuse(format!(
            "node {} is in the group with incarnation {}, but speaks as {}: its directory was wiped or replaced",
            envelope.from, sender.incarnation, envelope.from_incarnation
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(cluster: Option<&str>) -> Identity {
        Identity::new(2, "inc-2", "/data/2".into(), cluster.map(str::to_owned))
    }

    fn urls() -> BTreeMap<u64, String> {
        (1..=3).map(|id| (id, format!("http://n{id}"))).collect()
    }

    fn member(id: u64, incarnation: &str) -> (u64, Node) {
        (id, Node { url: format!("http://n{id}"), incarnation: incarnation.into() })
    }

    fn blank(id: u64) -> Introduction {
        Introduction {
            node_id: id,
            incarnation: format!("inc-{id}"),
            cluster_id: String::new(),
            has_log: false,
            members: BTreeMap::new(),
            configured: vec![1, 2, 3],
        }
    }

    fn formed(id: u64, cluster: &str) -> Introduction {
        Introduction {
            cluster_id: cluster.into(),
            has_log: true,
            members: [member(1, "inc-1"), member(2, "inc-2"), member(3, "inc-3")].into(),
            ..blank(id)
        }
    }

    #[test]
    fn a_wiped_directory_is_refused_by_name() {
        let wiped = Identity::new(2, "fresh", "/data/2".into(), None);
        let error = check_peer(&wiped, 3, "http://n3", &formed(3, "c1")).expect_err("wiped");
        let text = error.to_string();
        for part in ["/data/2", "inc-2", "fresh", "http://n3", "c1"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert!(check_peer(&own(None), 3, "http://n3", &formed(3, "c1")).is_ok());
    }

    #[test]
    fn a_directory_of_another_cluster_is_refused_by_name() {
        let error = check_peer(&own(Some("c0")), 3, "http://n3", &formed(3, "c1")).expect_err("other cluster");
        assert!(error.to_string().contains("c0") && error.to_string().contains("c1"), "{error}");
    }

    #[test]
    fn another_node_behind_a_peers_url_is_refused() {
        assert!(matches!(check_peer(&own(None), 3, "u", &blank(1)), Err(Error::PeerId { reported: 1, .. })));
    }

    #[test]
    fn only_the_lowest_node_forms_and_only_when_all_are_blank() {
        let lowest = Identity::new(1, "inc-1", "/data/1".into(), None);
        let both: BTreeMap<_, _> = [(2, blank(2)), (3, blank(3))].into();
        let members = first_members(&lowest, &urls(), &both).expect("all blank");
        assert_eq!(members[&3].incarnation, "inc-3");

        assert_eq!(first_members(&own(None), &urls(), &[(1, blank(1)), (3, blank(3))].into()), None, "not the lowest");
        assert_eq!(first_members(&lowest, &urls(), &[(2, blank(2))].into()), None, "one not reached");
        assert_eq!(first_members(&lowest, &urls(), &[(2, blank(2)), (3, formed(3, ""))].into()), None, "one formed");
        let other = Introduction { configured: vec![1, 3], ..blank(3) };
        assert_eq!(first_members(&lowest, &urls(), &[(2, blank(2)), (3, other)].into()), None, "other peers");
    }

    #[test]
    fn messages_to_or_from_another_incarnation_or_cluster_are_refused() {
        let members: BTreeMap<_, _> = [member(1, "inc-1"), member(2, "inc-2")].into();
        let message = || Envelope {
            from: 1,
            from_incarnation: "inc-1".to_owned(),
            to: 2,
            to_incarnation: "inc-2".to_owned(),
            cluster_id: "c1".to_owned(),
            body: (),
        };
        assert!(admit(&own(Some("c1")), &members, &message()).is_ok());
        assert!(admit(&own(None), &BTreeMap::new(), &message()).is_ok(), "the first message of a new group");
        assert!(admit(&own(Some("c0")), &members, &message()).is_err());
        for wrong in [
            Envelope { to: 3, ..message() },
            Envelope { to_incarnation: "old".into(), ..message() },
            Envelope { from_incarnation: "fresh".into(), ..message() },
        ] {
            assert!(admit(&own(Some("c1")), &members, &wrong).is_err(), "{wrong:?}");
        }
    }
}
