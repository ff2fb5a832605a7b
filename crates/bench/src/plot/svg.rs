//! Plot as SVG.
//!
//! ```text
//!  title
//!  subtitle
//!  ── key ── key
//!  y label
//!   tick ┤
//!   tick ┤      curves         label
//!        └┬────┬────┬
//!       tick  tick  tick
//!            x label
//! ```

use maud::{Markup, PreEscaped, html};

use super::{Axis, Curve, Key, Line, Plot};

pub(super) const FONT: &str = "DejaVu Sans";

const WIDTH: f64 = 680.0;
const TITLE: f64 = 38.0;
const SUBTITLE: f64 = 20.0;
const LEFT: f64 = 92.0;
const AXES_HEIGHT: f64 = 280.0;
const BELOW: f64 = 58.0;
const LEGEND_LINE: f64 = 20.0;
/// Width of a letter at 12 pixels, an upper estimate, since this module cannot measure text.
const LETTER: f64 = 6.8;

/// CSS rules of plots on a light background.
pub const CSS_LIGHT: &str = "\
.plot text{font:12px \"DejaVu Sans\",Verdana,sans-serif;fill:#222}
.plot .title{font-size:14px;font-weight:bold}
.plot .fixed{font-size:11px;fill:#555}
.plot .ground{fill:#fff}
.plot .grid{stroke:#ddd;stroke-width:1}
.plot .axis{stroke:#555;stroke-width:1}
.plot polyline{fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}
.plot .dashed{stroke-width:1.75;stroke-dasharray:5 5}
.plot .c0{stroke:#0069b4}.plot circle.c0{fill:#0069b4}
.plot .c1{stroke:#d05000}.plot circle.c1{fill:#d05000}
.plot .c2{stroke:#00845c}.plot circle.c2{fill:#00845c}
.plot .c3{stroke:#a83c84}.plot circle.c3{fill:#a83c84}
.plot .c4{stroke:#8a6a00}.plot circle.c4{fill:#8a6a00}
.plot .c5{stroke:#5b5bd6}.plot circle.c5{fill:#5b5bd6}
.plot .c6{stroke:#7a7a7a}.plot circle.c6{fill:#7a7a7a}
.plot .c7{stroke:#b3261e}.plot circle.c7{fill:#b3261e}
";

/// CSS colours on a dark background.
pub const CSS_DARK: &str = "\
.plot text{fill:#ddd}
.plot .fixed{fill:#aaa}
.plot .ground{fill:#16181c}
.plot .grid{stroke:#34373d}
.plot .axis{stroke:#999}
.plot .c0{stroke:#5ab4f0}.plot circle.c0{fill:#5ab4f0}
.plot .c1{stroke:#ff9248}.plot circle.c1{fill:#ff9248}
.plot .c2{stroke:#35cf9c}.plot circle.c2{fill:#35cf9c}
.plot .c3{stroke:#e98cca}.plot circle.c3{fill:#e98cca}
.plot .c4{stroke:#dfbd3a}.plot circle.c4{fill:#dfbd3a}
.plot .c5{stroke:#a9a9ff}.plot circle.c5{fill:#a9a9ff}
.plot .c6{stroke:#a0a0a0}.plot circle.c6{fill:#a0a0a0}
.plot .c7{stroke:#ff7a70}.plot circle.c7{fill:#ff7a70}
";

/// SVG for a page that has [`CSS_LIGHT`] and [`CSS_DARK`] itself.
#[must_use]
pub fn figure(plot: &Plot) -> Markup {
    draw(plot, None)
}

/// SVG as a file, light or dark as its viewer.
#[must_use]
pub fn file(plot: &Plot) -> String {
    let dark = format!("@media screen and (prefers-color-scheme:dark){{\n{CSS_DARK}}}\n");
    draw(plot, Some(&format!("{CSS_LIGHT}{dark}"))).into_string()
}

pub(super) fn for_print(plot: &Plot) -> String {
    draw(plot, Some(CSS_LIGHT)).into_string()
}

/// Positions of the axes.
struct Frame<'a> {
    plot: &'a Plot,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.plot.x.place(value) * (self.right - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.plot.y.place(value) * (self.bottom - self.top)
    }
}

fn draw(plot: &Plot, style: Option<&str>) -> Markup {
    let legend = legend_places(&plot.legend);
    let legend_lines = legend.last().map_or(0.0, |(_, line)| f64::from(*line) + 1.0);
    let legend_top = if plot.subtitle.is_empty() { TITLE } else { TITLE + SUBTITLE };
    let top = legend_top + legend_lines * LEGEND_LINE + 34.0;
    let bottom = top + AXES_HEIGHT;
    let height = bottom + BELOW;
    let longest =
        plot.curves.iter().filter_map(|curve| curve.label.as_ref()).map(|l| l.chars().count()).max();
    let right = WIDTH - longest.map_or(20.0, |letters| 16.0 + letters as f64 * LETTER);
    let frame = Frame { plot, right, top, bottom };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" aria-label=(plot.title)
            viewBox={ "0 0 " (WIDTH) " " (px(height)) } width=(WIDTH) height=(px(height)) {
            @if let Some(style) = style {
                // Constants of this crate: they do not end the element.
                style { (PreEscaped(style)) }
            }
            rect class="ground" width="100%" height="100%" {}
            text class="title" x="16" y="24" { (plot.title) }
            text class="fixed" x="16" y="44" { (plot.subtitle) }
            @for (key, (x, line)) in plot.legend.iter().zip(&legend) {
                @let y = legend_top + f64::from(*line) * LEGEND_LINE + 10.0;
                polyline class={ (colour(key.colour)) (dashed(key.line)) }
                    points={ (px(*x)) "," (px(y)) " " (px(x + 24.0)) "," (px(y)) } {}
                text x=(px(x + 31.0)) y=(px(y + 4.0)) { (key.text) }
            }
            text x="16" y=(px(top - 17.0)) { (plot.y.label) }
            (axes(&frame))
            @for curve in &plot.curves { (curve_of(&frame, curve)) }
            (labels(&frame))
        }
    }
}

fn axes(frame: &Frame) -> Markup {
    let Frame { plot, right, top, bottom } = *frame;
    let place_x = |value| frame.x(value);
    html! {
        @for tick in &plot.y.ticks {
            @let y = px(frame.y(tick.at));
            line class="grid" x1=(LEFT) y1=(y) x2=(px(right)) y2=(y) {}
            text x=(LEFT - 8.0) y=(px(frame.y(tick.at) + 4.0)) text-anchor="end" { (tick.text) }
        }
        @for (x, text) in named(&plot.x, &place_x) {
            line class="grid" x1=(px(x)) y1=(px(top)) x2=(px(x)) y2=(px(bottom)) {}
            text x=(px(x)) y=(px(bottom + 20.0)) text-anchor="middle" { (text) }
        }
        polyline class="axis" points={ (LEFT) "," (px(top)) " " (LEFT) "," (px(bottom)) " " (px(right)) "," (px(bottom)) } {}
        text x=(px((LEFT + right) / 2.0)) y=(px(bottom + 44.0)) text-anchor="middle" { (plot.x.label) }
    }
}

/// Ticks whose labels do not overlap the previous one, with their positions.
fn named<'a>(axis: &'a Axis, place: &dyn Fn(f64) -> f64) -> Vec<(f64, &'a str)> {
    let mut free = f64::NEG_INFINITY;
    let mut out = Vec::new();
    for tick in &axis.ticks {
        let (x, half) = (place(tick.at), tick.text.chars().count() as f64 * LETTER / 2.0);
        if x - half >= free {
            out.push((x, tick.text.as_str()));
            free = x + half + 8.0;
        }
    }
    out
}

fn curve_of(frame: &Frame, curve: &Curve) -> Markup {
    let drawn = |(x, y): &(f64, f64)| (x.is_finite() && y.is_finite()).then(|| (frame.x(*x), frame.y(*y)));
    html! {
        @for piece in &curve.pieces {
            polyline class={ (colour(piece.colour)) (dashed(curve.line)) }
                points=(piece.points.iter().filter_map(drawn).map(|(x, y)| format!("{},{}", px(x), px(y))).collect::<Vec<_>>().join(" ")) {}
        }
        @for mark in &curve.marks {
            @if let Some((x, y)) = drawn(&mark.at) {
                circle class=(colour(mark.colour)) cx=(px(x)) cy=(px(y)) r="4" { title { (mark.says) } }
            }
        }
    }
}

/// Labels at the right ends of curves, moved apart where curves end close together.
fn labels(frame: &Frame) -> Markup {
    let end = |curve: &Curve| curve.pieces.last().and_then(|piece| piece.points.last().copied());
    let labelled = |curve: &'_ Curve| Some((frame.y(end(curve)?.1), curve.label.clone()?));
    let mut places: Vec<(f64, String)> = frame.plot.curves.iter().filter_map(labelled).collect();
    places.sort_by(|a, b| b.0.total_cmp(&a.0));
    // From the lowest upwards, each at least one line above the previous one.
    let mut free = f64::INFINITY;
    for (y, _) in &mut places {
        *y = y.min(free);
        free = *y - 14.0;
    }
    html! {
        @for (y, text) in &places {
            text x=(px(frame.right + 8.0)) y=(px(y + 4.0)) { (text) }
        }
    }
}

/// Position and line of each key in the legend.
fn legend_places(keys: &[Key]) -> Vec<(f64, u32)> {
    let (mut x, mut line) = (16.0, 0);
    let place = |key: &Key| {
        let width = 31.0 + key.text.chars().count() as f64 * LETTER + 18.0;
        if x > 16.0 && x + width > WIDTH {
            (x, line) = (16.0, line + 1);
        }
        let at = (x, line);
        x += width;
        at
    };
    keys.iter().map(place).collect()
}

fn colour(colour: usize) -> String {
    format!("c{}", colour % super::COLOURS)
}

fn dashed(line: Line) -> &'static str {
    match line {
        Line::Solid => "",
        Line::Dashed => " dashed",
    }
}

/// Coordinate, rounded to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}
