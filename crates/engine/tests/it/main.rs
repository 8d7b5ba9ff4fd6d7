//! What the engine offers to faces.

mod closing;
mod second_face;
