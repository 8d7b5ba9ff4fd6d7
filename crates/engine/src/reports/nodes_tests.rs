use super::*;
use std::sync::Arc;
use weft_format::VolumeId;
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{MemoryNode, Node, NodeIdentity};

fn member(number: u128, fault: Fault) -> (NodeId, NodeRecord, Arc<dyn Node>) {
    let (id, name) = (NodeId(number), format!("n{number}"));
    let record = NodeRecord {
        name: name.clone(),
        url: format!("memory:{number}"),
        state: NodeState::Active,
        domain: name.clone(),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    };
    let memory = MemoryNode::new(name.clone(), NodeIdentity { volume: VolumeId(1), node: id }, 1 << 30);
    (id, record, Arc::new(FaultNode::new(Arc::new(memory), name, Box::new(move |_| fault))))
}

/// Time is paused, and goes on when everybody waits: three silent nodes cost one deadline, and not three.
#[tokio::test(start_paused = true)]
async fn finding_22_silent_nodes_are_waited_for_together() {
    let silent = |number: u128| number.is_multiple_of(2);
    let members = (0..6).map(|number| member(number, if silent(number) { Fault::Silence } else { Fault::None }));
    let began = tokio::time::Instant::now();
    let found = spaces_of(members.collect(), LOOK_DEADLINE, &weft_env::Env::system().clock).await;
    assert_eq!(began.elapsed(), LOOK_DEADLINE);
    assert_eq!(found.len(), 6);
    for Asked { id, space, .. } in found {
        match space {
            Ok(_) => assert!(!silent(id.0)),
            Err(why) => {
                assert!(silent(id.0) && why.detail == "no answer within 2 s: its state is not known yet", "{why}")
            }
        }
    }
}
