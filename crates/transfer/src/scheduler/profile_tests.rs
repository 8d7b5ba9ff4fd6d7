use super::*;

#[test]
fn profiles_read_as_they_are_written() {
    for text in
        ["adaptive", "fastest0", "fastest1,T=30,R=2,P=6,data-first,whole", "lightest,timeout-ms=500,window-mib=8,any"]
    {
        let profile: Profile = text.parse().unwrap();
        assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile, "{text} is {profile}");
    }
    assert_eq!("adaptive".parse(), Ok(Profile::default()));
    assert_eq!("fastest1,T=30".parse::<Profile>().unwrap().transfers, 30);
}

#[test]
fn what_is_no_profile_is_named() {
    for (text, part) in [
        ("", ""),
        ("quickest", "quickest"),
        ("fastest0,T=0", "T=0"),
        ("fastest0,T=many", "T=many"),
        ("fastest0,speed=9", "speed=9"),
        ("adaptive,R=2", "R=2"),
        ("fastest0,whole=1", "whole=1"),
    ] {
        assert_eq!(text.parse::<Profile>(), Err(ProfileError { part: part.into() }), "{text}");
    }
}
