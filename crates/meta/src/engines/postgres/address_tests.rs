use super::*;

fn parsed(place: &str) -> Result<Address, &'static str> {
    parse(OsStr::new(place))
}

#[test]
fn an_address_names_server_database_and_schema() {
    let address = parsed("//weft@db.example:6000/volumes?schema=photos&target_session_attrs=read-write").unwrap();
    assert_eq!(address.schema, "photos");
    assert_eq!(address.config.get_user(), Some("weft"));
    assert_eq!(address.config.get_ports(), [6000]);
    assert_eq!(address.config.get_dbname(), Some("volumes"));
    assert_eq!(address.shown, "postgres://weft@db.example:6000/volumes?schema=photos&target_session_attrs=read-write");
    assert_eq!(parsed("//h/d").unwrap().schema, "weft");
}

#[test]
fn the_way_to_another_machine_is_encrypted_unless_the_address_says_otherwise() {
    let mode = |place: &str| parsed(place).unwrap().config.get_ssl_mode();
    for local in ["//localhost/d", "//127.0.0.1/d", "//[::1]/d", "//%2Fvar%2Frun%2Fpostgresql/d"] {
        assert_eq!(mode(local), SslMode::Disable, "{local}");
    }
    for remote in ["//db.example/d", "//localhost,db.example/d", "//10.0.0.1/d"] {
        assert_eq!(mode(remote), SslMode::Require, "{remote}");
    }
    assert_eq!(mode("//db.example/d?sslmode=disable"), SslMode::Disable);
    assert_eq!(mode("//localhost/d?sslmode=require"), SslMode::Require);
}

#[test]
fn what_is_no_address_is_refused_with_the_mend() {
    for (place, word) in [
        ("//u:secret@h/d", "PGPASSWORD"),
        ("//h/d?password=secret", "PGPASSWORD"),
        ("h/d", "postgres://USER@HOST"),
        ("//", "no server"),
        ("///d", "no server"),
        ("//h/d?schema=", "?schema=NAME"),
        ("//h/d?schema=Photos", "?schema=NAME"),
        ("//h/d?schema=x%3By", "?schema=NAME"),
        ("//h/d?schema=pg_catalog", "?schema=NAME"),
        ("//h:port/d", "cannot read it"),
        ("//h/d?nonsense=1", "cannot read it"),
    ] {
        let why = parsed(place).expect_err(place);
        assert!(why.contains(word), "{place}: {why}");
        assert!(!why.contains("secret"));
    }
}

#[test]
fn the_password_of_the_first_line_that_fits() {
    let text = "# ours\nother:*:*:*:no\n*:5432:d:u:pass\\:word:x\n*:*:*:*:last\nshort:line\n";
    assert_eq!(password_in(text, ["h", "5432", "d", "u"]).as_deref(), Some("pass:word:x"));
    assert_eq!(password_in(text, ["h", "5432", "e", "u"]).as_deref(), Some("last"));
    assert_eq!(password_in(text, ["other", "1", "d", "u"]).as_deref(), Some("no"));
    assert_eq!(password_in("short:line", ["h", "5432", "d", "u"]), None);
}

/// A configuration is compared by what it shows: all but the password.
#[test]
fn each_host_has_its_own_password_and_all_other_settings() {
    let text = "one:5432:d:u:first\ntwo:6000:d:u:second\n";
    let address =
        parsed("//u@one,two:6000,three/d?connect_timeout=3&options=-c%20x%3D1&load_balance_hosts=random").unwrap();
    let servers = with_passwords_of(&address.config, text);
    let passwords: Vec<_> = servers.iter().map(Config::get_password).collect();
    assert_eq!(passwords, [Some(&b"first"[..]), Some(b"second"), None]);
    for (server, (host, port)) in servers.iter().zip([("one", 5432), ("two", 6000), ("three", 5432)]) {
        assert_eq!((server.get_hosts(), server.get_ports()), (&[Host::Tcp(host.into())][..], &[port][..]));
    }
    let alone = parsed("//u@two:6000/d?connect_timeout=3&options=-c%20x%3D1&load_balance_hosts=random").unwrap().config;
    let mut without_password = servers[1].clone();
    without_password.password("");
    let mut expected = alone.clone();
    expected.password("").load_balance_hosts(address.config.get_load_balance_hosts());
    assert_eq!(format!("{without_password:?}"), format!("{expected:?}"));
}
