//! Draws lines in a coordinate system, as SVG.

use std::fmt::Write as _;

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Thick,
    Thin,
    Dashed,
}

/// One line.
pub struct Line {
    pub name: String,
    pub stroke: Stroke,
    /// The number of its colour.
    pub colour: usize,
    /// Across and up.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common axis.
pub struct Picture {
    pub title: String,
    /// What the axis across counts.
    pub across: String,
    /// Whether the axis up is logarithmic.
    pub logarithmic: bool,
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Three pairs of colours that people with colour blindness tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#999999"];

/// Where the names of lines are no nearer to each other than this.
const ROW: f64 = 15.0;

impl Picture {
    /// The picture as a file.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        self.text(&mut svg, LEFT, 22.0, "start", &self.title);
        self.text(&mut svg, LEFT, HEIGHT - 12.0, "start", &self.across);
        for mark in self.marks() {
            let y = self.up(mark);
            line(&mut svg, (LEFT, y), (WIDTH - RIGHT, y), "#dddddd");
            self.text(&mut svg, LEFT - 6.0, y + 4.0, "end", &format!("{mark}"));
        }
        let mut counts: Vec<f64> = self.points().map(|(x, _)| x).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        for count in counts {
            self.text(&mut svg, self.right(count), HEIGHT - BOTTOM + 18.0, "middle", &format!("{count}"));
        }
        self.draw_lines(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_lines(&self, svg: &mut String) {
        let mut names: Vec<(f64, usize)> = Vec::new();
        for (at, Line { stroke, points, .. }) in self.lines.iter().enumerate() {
            let place = |&(x, y): &(f64, f64)| format!("{:.1},{:.1}", self.right(x), self.up(y));
            let pen = match stroke {
                Stroke::Thick => "stroke-width=\"3\"",
                Stroke::Thin => "stroke-width=\"1\"",
                Stroke::Dashed => "stroke-width=\"1.5\" stroke-dasharray=\"5 4\"",
            };
            let path = points.iter().map(place).collect::<Vec<_>>().join(" ");
            let colour = self.colour(at);
            put(svg, &format!("<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" {pen}/>"));
            names.extend(points.last().map(|&(_, y)| (self.up(y), at)));
        }
        names.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut above = f64::MIN;
        for (y, at) in names {
            let y = y.max(above + ROW);
            above = y;
            let x = WIDTH - RIGHT + 8.0;
            put(
                svg,
                &format!(
                    "<text x=\"{x}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
                    y + 4.0,
                    self.colour(at),
                    self.lines[at].name
                ),
            );
        }
    }

    /// The colour of a line.
    fn colour(&self, at: usize) -> &'static str {
        COLOURS[self.lines[at].colour % COLOURS.len()]
    }

    fn text(&self, svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
        put(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#333333\">{text}</text>"));
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flat_map(|line| line.points.iter().copied())
    }

    fn most(&self, of: fn((f64, f64)) -> f64) -> f64 {
        self.points().map(of).fold(1.0, f64::max)
    }

    /// Where a number is across.
    fn right(&self, x: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * x / self.most(|(x, _)| x)
    }

    /// Where a number is up.
    fn up(&self, y: f64) -> f64 {
        let most = self.marks().last().copied().unwrap_or(1.0);
        let share = if self.logarithmic { y.max(1.0).ln() / most.ln() } else { y / most };
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }

    /// The numbers beside the axis up, the largest last.
    fn marks(&self) -> Vec<f64> {
        let most = self.most(|(_, y)| y);
        if self.logarithmic {
            let mut marks = vec![1.0];
            while marks.last().is_some_and(|last| *last < most) {
                marks.extend(marks.last().map(|last| last * 10.0));
            }
            return marks;
        }
        let step = 10.0_f64.powf(most.log10().floor()).max(1.0);
        (0..=10).map(|mark| f64::from(mark) * step).take_while(|mark| *mark < most + step).collect()
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    put(svg, &format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"));
}

fn put(svg: &mut String, element: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{element}");
}
