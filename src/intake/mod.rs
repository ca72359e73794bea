//! What the caller pushes: samples that wait, and the arrays that they name.

pub mod arrays;
pub mod draft;
pub mod edges;
pub mod parts;
pub mod queue;
pub mod rows;
pub mod spelled;
pub mod target;
