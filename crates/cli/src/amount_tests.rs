use super::*;

#[test]
fn finding_32_sizes_are_read_as_people_write_them() {
    for (text, bytes) in [
        ("1", 1),
        ("1B", 1),
        ("500K", 512_000),
        ("500KiB", 512_000),
        ("10M", 10 << 20),
        ("10m", 10 << 20),
        ("10MB", 10 << 20),
        ("10MiB", 10 << 20),
        ("1.5G", 3 << 29),
        ("1.5gib", 3 << 29),
        ("0.5k", 512),
        ("1.50T", 3 << 39),
        ("15E", 15 << 60),
    ] {
        assert_eq!(parse_bytes(text).map(NonZeroU64::get), Some(bytes), "{text}");
    }
    let wrong =
        ["", "0", "0M", "M", "-1", "+1", "1X", "1.", ".5G", "1.5.5M", "1 G", "10MiBs", "16E", "1e3", "0.1", "1,5G"];
    for text in wrong {
        assert_eq!(parse_bytes(text), None, "{text}");
        assert!(parse_size(text).is_err_and(|error| error.contains("is not a size")), "{text}");
        assert!(parse_rate(text).is_err_and(|error| error.contains("is not a rate")), "{text}");
    }
}

#[test]
fn finding_32_addresses_to_listen_on_may_be_names_or_a_port_alone() {
    for (text, address) in [
        ("127.0.0.1:7600", "127.0.0.1:7600"),
        ("[::1]:7600", "[::1]:7600"),
        (":7600", "0.0.0.0:7600"),
        ("localhost:7600", "127.0.0.1:7600"),
    ] {
        assert_eq!(parse_listen(text), Ok(address.parse().expect("an address")), "{text}");
    }
    for text in ["", "7600", "localhost", ":", ":x", "localhost:70000", "no such host:1"] {
        assert!(parse_listen(text).is_err_and(|error| error.contains("HOST:PORT")), "{text}");
    }
}
