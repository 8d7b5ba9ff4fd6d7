use super::*;

fn shown(spec: &str) -> Shown {
    let code = weft_codes::parse(spec).expect(spec);
    let symbols = layout::symbols(code.shape(), &Stripe::encoded(&code).expect("it encodes").stored);
    Shown::new(&*code, &symbols, 0.95).expect(spec)
}

/// The layout and the first rows come without a generator; where there is one they agree with it.
#[test]
fn small_codes_have_their_generator_shown() {
    for family in weft_codes::families() {
        let shown = shown(family.example);
        let generator = shown.generator.expect("examples are small");
        assert_eq!(shown.first_rows.count, generator.len(), "{}", family.example);
        assert_eq!(shown.first_rows.rows, generator[..generator.len().min(MOST_ROWS)], "{}", family.example);
        assert_ne!(shown.figures.tolerance_known_by, Evidence::Construction, "{}", family.example);
    }
}

/// Of 20,480 rows of 16,384 elements sixteen are made, and nothing is tried.
#[test]
fn wide_codes_are_shown_without_their_matrices() {
    let shown = shown("clay:16+4");
    assert_eq!(shown.figures.tolerance_known_by, Evidence::Construction);
    assert!(shown.generator.is_none() && shown.losses.is_empty() && shown.figures.one_more.is_none());
    assert_eq!((shown.first_rows.count, shown.first_rows.rows.len()), (4 * 1024, MOST_ROWS));
    assert!(shown.figures.nodes_repaired < 20);
    let repair = shown.figures.repair.expect("a node can be rebuilt");
    assert_eq!(repair.received_bytes_per_byte, 19.0 / 4.0);
}

/// The figures of the graph that CERN's store needs: exact, whatever formula a paper uses for it.
#[test]
fn a_graph_says_how_often_it_fails_and_what_it_needs() {
    let cube = shown("ldpc:cube-8-6");
    let unavailability = cube.unavailability.expect("counted");
    assert!((unavailability.share_of_time / 2.118e-4 - 1.0).abs() < 0.005 && unavailability.error == 0.0);
    let overhead = cube.overhead.expect("a graph");
    assert!((overhead.by_peeling * 8.0 - 8.809_191).abs() < 1e-6, "{}", overhead.by_peeling);
    assert!(overhead.by_elimination < overhead.by_peeling && overhead.worst == Some(11.0 / 8.0));
    let mds = shown("rs:8+6");
    assert!((mds.unavailability.expect("by formula").share_of_time / 1.96e-6 - 1.0).abs() < 0.005);
    assert!(mds.overhead.is_none());
}

/// One and two lost nodes beside theory: Clay meets it where both are in a column, and comes near it elsewhere; nodes that
/// compute meet it with a product matrix; E-MBR without computing decodes.
#[test]
fn the_repair_of_two_nodes_is_shown_beside_theory() {
    let two = |spec: &str| {
        let two = shown(spec).figures.repair_of_two.expect("two may be lost");
        let computing = two.if_nodes_compute.map(|repair| repair.received_bytes_per_byte);
        (two.if_nodes_send.received_bytes_per_byte, computing, two.least_bytes_per_byte)
    };
    let (clay, computing, least) = two("clay:8+4");
    assert!((5.0..5.7).contains(&clay) && computing.is_none() && least == Some(5.0), "{clay}");
    assert_eq!(two("rs:8+4"), (8.0, None, Some(8.0)));
    let (_, computing, least) = two("msr:4+4,d=7");
    assert_eq!((computing, least), (Some(3.0), Some(3.0)));
    assert_eq!(two("embr:n=6,k=4"), (2.8, Some(2.2), Some(2.2)));
    assert!(shown("raid5:4").figures.repair_of_two.is_none(), "any one node may be lost");
    assert_eq!(shown("clay:8+4").figures.repair_least_bytes_per_byte, Some(2.75));
}
