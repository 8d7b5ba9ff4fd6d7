//! What the engine offers to faces.

mod second_face;
