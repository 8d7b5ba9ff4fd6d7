//! Requests to a daemon that is a member of an object store.

use weft_daemon::fuzzing::{MakeMember, member_request, member_request_seeds};
use weft_objects::Question;

/// What makes the member.
pub const MEMBER: MakeMember = |identity, node| Box::pin(weft_engine::fuzzing::member(identity, node));

pub(super) fn request(bytes: &[u8]) {
    member_request(bytes, MEMBER);
}

pub(super) fn request_seeds() -> Vec<Vec<u8>> {
    let questions = [
        Question::Find { hash: weft_format::records::name_hash("run/7") },
        Question::List { prefix: "run/".into(), after: String::new(), limit: 100 },
    ];
    member_request_seeds(&questions.map(|question| question.encode()))
}
