//! Plots: curves over two axes, as SVG, on a page or in a file of its own, and as PNG.
//!
//! In: points in the units of the data, and texts. Out: text or bytes. It decides where things are drawn,
//! never what. Colours are classes, `c0` to `c7`, so that a page, or a viewer in the dark, can give them
//! other values.

mod axis;
mod png;
mod svg;

pub use axis::{Axis, Tick};
pub use png::png;
pub use svg::{CSS_DARK, CSS_LIGHT, figure, file};

/// How many colours there are.
pub const COLOURS: usize = 8;

/// A plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Title, in a line.
    pub title: String,
    /// Subtitle with the constant parameters; may be empty.
    pub subtitle: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// From back to front.
    pub curves: Vec<Curve>,
    /// Above the axes, from left to right.
    pub legend: Vec<Key>,
}

/// A curve, whose pieces may differ in colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// One after the other.
    pub pieces: Vec<Piece>,
    /// Points that are marked.
    pub marks: Vec<Mark>,
    /// Whether its line is broken.
    pub line: Line,
    /// Label at its right end.
    pub label: Option<String>,
}

/// A piece of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Below [`COLOURS`].
    pub colour: usize,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A point that is marked.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Below [`COLOURS`].
    pub colour: usize,
    /// Where.
    pub at: (f64, f64),
    /// Tooltip.
    pub says: String,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Whole.
    Solid,
    /// Broken: what could be, beside what is.
    Dashed,
}

/// A line of the legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Below [`COLOURS`].
    pub colour: usize,
    /// As in the plot.
    pub line: Line,
    /// Meaning.
    pub text: String,
}
