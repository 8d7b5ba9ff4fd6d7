use super::*;
use async_trait::async_trait;
use std::collections::BTreeSet;
use weft_format::{NodeId, VolumeId};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };

fn all() -> Kinds {
    Kinds::new(local().into_iter().chain(crate::foreign::kinds()).collect())
}

#[test]
fn no_two_kinds_have_a_name_or_a_scheme_in_common() {
    let all = all();
    let names: BTreeSet<&str> = all.about().map(|about| about.name).collect();
    assert_eq!(names.len(), all.about().count());
    let schemes: Vec<&str> = all.about().flat_map(|about| about.schemes).copied().collect();
    assert_eq!(schemes.iter().collect::<BTreeSet<_>>().len(), schemes.len());
}

/// A kind that is there, and whose nodes this program cannot open.
struct LeftOut;

static LEFT_OUT: About =
    About { name: "moon", schemes: &["moon"], feature: Some("moon"), is_built_in: false, ..crate::memory::ABOUT };

#[async_trait]
impl Kind for LeftOut {
    fn about(&self) -> &'static About {
        &LEFT_OUT
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        Ok(NodeUrl::elsewhere(LEFT_OUT.name, format!("{scheme}://{rest}")))
    }

    fn open(&self, _: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        panic!("it is not built in");
    }

    async fn create(&self, _: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        panic!("it is not built in");
    }
}

#[tokio::test]
async fn a_kind_that_was_left_out_names_its_feature() {
    let kinds = Kinds::new(vec![Arc::new(LeftOut)]);
    let url = kinds.parse("moon://base").expect("an address");
    let node = NodeAt { url: &url, name: "far", identity: IDENTITY, secret: &Secret::default() };
    let opened = kinds.open(&node).map(drop);
    let created = kinds.create(&node).await.map(drop);
    for refused in [opened, created, kinds.put_back(&node).await.map(drop)] {
        let error = refused.expect_err("left out");
        assert_eq!(error.kind, NodeErrorKind::Unavailable);
        let sentence =
            "node far: this program was built without moon: build it with `cargo build --release --features moon`";
        assert_eq!(error.to_string(), sentence);
    }
}
