use super::*;
use crate::models::choice::tests::{NEEDS, node};

/// Every link of the table has its place below.
#[test]
fn every_number_leads_to_how_it_is_computed() {
    let nodes: Vec<Node> = (0..5).map(node).collect();
    let ranked = choice::rank(&nodes, &NEEDS).unwrap();
    let notes = ["a speed is assumed".to_owned()];
    let page =
        choices(&Ranked { heading: "five nodes", notes: &notes, nodes: &nodes, needs: &NEEDS, choices: &ranked });
    let page = page.unwrap();
    let links: Vec<&str> = page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links.len(), ranked.len().min(EXPLAINED) * COLUMNS.len());
    for link in links {
        assert_eq!(page.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
    }
    assert!(page.contains("five nodes") && page.contains("a speed is assumed") && page.matches("<svg").count() == 3);
}
