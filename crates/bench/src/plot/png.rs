//! Renders a plot's SVG to PNG with a built-in font: the same result on a machine without fonts.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree};

use super::Plot;
use super::svg;

/// DejaVu Sans with the characters of plots; fonts/LICENCE.txt.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans-plot.ttf");

/// Pixels of one unit of the SVG, for sharp screens and print.
const SCALE: f32 = 2.0;

/// PNG file with a white background.
///
/// # Errors
/// The renderer's error.
pub fn png(plot: &Plot) -> Result<Vec<u8>, String> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    let options = Options { fontdb: Arc::new(fonts), font_family: svg::FONT.into(), ..Options::default() };
    let tree = Tree::from_str(&svg::for_print(plot), &options).map_err(|e| e.to_string())?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the plot has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the plot is too large")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}
