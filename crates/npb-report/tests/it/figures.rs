//! What is in a figure, what is a gap in it, and what is none.

use npb_report::{
    Bars, Cells, Layer, Panel, Picture, Point, ReportError, Shape, by_name, centres, colours,
    images, lines, picture,
};

const X: (f64, f64) = (0.0, 4.0);
const Y: (f64, f64) = (0.0, 2.0);
const NOT_NUMBERS: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

fn panel(shapes: Vec<Shape>) -> Panel {
    let layer = |(i, shape)| Layer::new(format!("layer {i}"), colours::GREEN, shape);
    let layers = shapes.into_iter().enumerate().map(layer).collect();
    Panel::new("plane", ["across", "up"], X, Y, layers)
}

fn bars(bars: Vec<[f64; 2]>, sds: Vec<f64>) -> Shape {
    Shape::Bars(Bars {
        bars,
        sds,
        width: 0.4,
        shift: 0.1,
    })
}

fn line(points: &[(f64, f64)]) -> Vec<Point> {
    points.iter().map(|&(x, y)| Point::at(x, y)).collect()
}

/// Signature and first chunk of a PNG.
pub(crate) fn png_head(height: u32, width: u32) -> Vec<u8> {
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &size].concat()
}

#[test]
fn a_picture_holds_every_shape_and_its_numbers() {
    let shapes = vec![
        Shape::Cells(Cells::probabilities(2, vec![0.0, 0.5, 1.0, 1.0])),
        bars(vec![[1.0, 0.5]], vec![0.25]),
        Shape::Dots(vec![[1.0, 1.0]]),
        Shape::Triangles(vec![[2.0, 1.0]]),
        Shape::Crosses(vec![[3.0, 1.0]]),
        Shape::Curves(vec![vec![[0.0, 0.0], [1.0, 1.0]]], 2),
        Shape::Dashed(vec![vec![[0.0, 1.0], [1.0, 0.0]]]),
        Shape::Line(line(&[(1.0, 1.0), (2.0, 2.0)])),
    ];
    let panels = [panel(shapes), panel(vec![]), panel(vec![])];
    let figure = picture("f", "F", "", &panels).unwrap();
    for text in [
        "plane", "across", "up", "layer 0", "layer 7", "<circle", "<polygon", "</svg>",
    ] {
        assert!(figure.svg.contains(text), "{text} is not in the picture");
    }
    assert_eq!(figure.rows.len(), 4 + 1 + 3 + 2 + 2 + 2);
    assert_eq!(
        figure.rows[1],
        ["plane", "layer 0", "2", "3", "0.5", "", "0.5"]
    );
    assert_eq!(
        figure.rows[4],
        ["plane", "layer 1", "1", "1", "0.5", "0.25", ""]
    );
}

#[test]
fn curves_hold_their_numbers() {
    let point = |x: f64| Point {
        x,
        y: x * x,
        sd: Some(0.1),
    };
    let panel = |title: &str| {
        let curves = [
            Layer::line("one", [0.1, 0.5].map(point)),
            Layer::line("two", [Point::at(0.5, 1.0)]),
            Layer::line("without points", []),
        ];
        Panel::of_lines(title, ["fraction", "AUC"], curves)
    };
    let empty = Panel::of_lines("nothing", ["", ""], []);
    let figure = lines("f", "F", "", &[panel("left"), empty, panel("right")]).unwrap();
    assert!(figure.svg.starts_with("<svg") && figure.svg.trim_end().ends_with("</svg>"));
    for text in ["left", "right", "fraction", "AUC", "one", "two"] {
        assert!(figure.svg.contains(text), "{text} is not in the picture");
    }
    for text in ["nothing", "without points"] {
        assert!(!figure.svg.contains(text), "{text} is in the picture");
    }
    assert_eq!(figure.header, ["panel", "series", "x", "y", "sd"]);
    assert_eq!(figure.rows.len(), 6);
    assert_eq!(figure.rows[1], ["left", "one", "0.5", "0.25", "0.1"]);
    assert_eq!(figure.rows[5], ["right", "two", "0.5", "1", ""]);
}

#[test]
fn what_is_emphasised_is_wide_and_in_front() {
    let curve = |name: &str, y: f64| Layer::line(name, [1.0, 2.0].map(|x| Point::at(x, y)));
    let first = Layer {
        emphasised: true,
        ..curve("first", 0.0)
    };
    let panel = Panel::of_lines("", ["", ""], [first, curve("second", 1.0)]);
    let svg = lines("f", "F", "", &[panel]).unwrap().svg;
    let place = |colour: &str, width: u32| {
        svg.find(&format!("stroke=\"{colour}\" stroke-width=\"{width}\""))
    };
    let (first, second) = (place("#000000", 3), place("#D55E00", 2));
    assert!(second.is_some() && first > second, "{first:?} {second:?}");
}

#[test]
fn the_ninth_curve_has_another_mark() {
    let curve = |k: usize| Layer::line(format!("{k}"), [Point::at(k as f64, 1.0)]);
    let figure = |n: usize| {
        let panel = Panel::of_lines("", ["", ""], (0..n).map(curve));
        lines("f", "", "", &[panel]).unwrap().svg
    };
    assert!(!figure(8).contains("<polygon"));
    // In the panel and in the legend.
    assert_eq!(figure(9).matches("<polygon").count(), 2);
}

#[test]
fn points_of_one_name_are_one_curve() {
    let points = [("b", 1.0), ("a", 2.0), ("b", 3.0)];
    let curves = by_name(points.map(|(name, x)| (name.to_owned(), Point::at(x, x))));
    let names: Vec<&str> = curves.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["b", "a"]);
    let Shape::Line(points) = &curves[0].shape else {
        panic!("not a line");
    };
    assert_eq!(points[..], [Point::at(1.0, 1.0), Point::at(3.0, 3.0)]);
}

/// One shape of each kind with this number among others, at a place of its own.
fn with_number(number: f64) -> Vec<Shape> {
    let places = vec![[1.0, 1.0], [2.0, number], [number, 1.0], [3.0, 1.5]];
    let points = |at: &[f64; 2]| Point {
        x: at[0],
        y: at[1],
        sd: Some(number),
    };
    vec![
        Shape::Line(places.iter().map(points).collect()),
        Shape::Dots(places.clone()),
        Shape::Triangles(places.clone()),
        Shape::Crosses(places.clone()),
        Shape::Curves(vec![places.clone()], 2),
        Shape::Dashed(vec![places.clone()]),
        bars(places, vec![0.5, number]),
        Shape::Cells(Cells::probabilities(2, vec![0.5, number, 0.1, 1.0])),
    ]
}

#[test]
fn what_is_not_finite_is_a_gap() {
    for number in NOT_NUMBERS {
        for shape in with_number(number) {
            let layer = Layer::new("layer", colours::BLUE, shape);
            let found = Panel::of_lines("found", ["", ""], [layer.clone()]);
            let given = Panel::new("given", ["", ""], X, Y, vec![layer]);
            for panels in [[found], [given]] {
                for figure in [
                    lines("f", "", "", &panels).unwrap(),
                    picture("f", "", "", &panels).unwrap(),
                ] {
                    let all = figure.svg.clone() + &figure.csv();
                    for bad in ["NaN", "inf"] {
                        assert!(!all.contains(bad), "{:?}: {bad}", panels[0].layers[0].shape);
                    }
                    assert!(!figure.svg.contains(&i32::MAX.to_string()));
                    assert!(!figure.svg.contains(&i32::MIN.to_string()));
                }
            }
        }
    }
}

#[test]
fn a_gap_parts_a_curve() {
    let polylines = |y: f64| {
        let points = line(&[(0.0, 1.0), (1.0, 1.5), (2.0, y), (3.0, 1.2), (4.0, 1.0)]);
        let panel = Panel::new("", ["", ""], X, Y, vec![Layer::line("curve", points)]);
        let svg = lines("f", "", "", &[panel]).unwrap().svg;
        (
            svg.matches("stroke-width=\"2\" points").count(),
            svg.matches("<circle").count(),
        )
    };
    // The last of each is the legend's.
    assert_eq!(polylines(1.1), (1 + 1, 5 + 1));
    assert_eq!(polylines(f64::NAN), (2 + 1, 4 + 1));
}

#[test]
fn an_empty_figure_is_an_error() {
    let empty = Err(ReportError::Empty { figure: "f".into() });
    let nothing = [
        vec![],
        vec![panel(vec![])],
        vec![panel(vec![Shape::Dots(vec![]), bars(vec![], vec![])])],
        vec![panel(vec![Shape::Curves(vec![vec![[f64::NAN, 1.0]]], 1)])],
        vec![panel(vec![Shape::Cells(Cells::probabilities(
            2,
            vec![f64::NAN; 4],
        ))])],
        vec![Panel::of_lines("p", ["", ""], [Layer::line("a", [])])],
        vec![Panel::of_lines(
            "p",
            ["", ""],
            [Layer::line("a", line(&[(0.0, f64::NAN)]))],
        )],
    ];
    for panels in nothing {
        assert_eq!(lines("f", "", "", &panels), empty, "{panels:?}");
        assert_eq!(picture("f", "", "", &panels), empty, "{panels:?}");
    }
    assert_eq!(images("f", "", "", &[]), empty);
}

#[test]
fn a_range_that_is_none_is_an_error() {
    let ranges = [(1.0, 1.0), (2.0, 1.0), (1.0, 1.0 + 1e-12), (-1e308, 1e308)];
    let not_numbers = NOT_NUMBERS.map(|n| [(0.0, n), (n, 1.0)]).concat();
    for range in [&ranges[..], &not_numbers].concat() {
        let dots = || {
            vec![Layer::new(
                "dots",
                colours::BLUE,
                Shape::Dots(vec![[1.0, 1.0]]),
            )]
        };
        for (x, y, axis) in [(range, Y, "horizontal"), (X, range, "vertical")] {
            let error = picture("f", "", "", &[Panel::new("p", ["", ""], x, y, dots())]);
            let text = error.unwrap_err().to_string();
            assert!(text.contains("\"p\"") && text.contains(axis), "{text}");
        }
    }
}

/// Also numbers that leave nothing between them, or no room beyond them, end in a figure.
#[test]
fn windows_are_found_for_numbers_of_any_size() {
    for (a, b) in [
        (0.0, 0.0),
        (1e300, 1e300),
        (1e-300, 2e-300),
        (1.0, 1.0 + f64::EPSILON),
        (-1e15, 1e15),
        (1e15, 1e15 + 0.25),
        (5e-324, 0.0),
    ] {
        let panel = Panel::of_lines("p", ["", ""], [Layer::line("a", line(&[(a, b), (b, a)]))]);
        match lines("f", "", "", &[panel]) {
            Ok(figure) => assert_eq!(figure.svg.matches("<circle").count(), 2 + 1, "{a} {b}"),
            Err(error) => assert!(
                matches!(error, ReportError::Range { .. }),
                "{a} {b}: {error}"
            ),
        }
    }
    let huge = Layer::line("a", line(&[(0.0, -1e308), (1.0, 1e308)]));
    let panel = Panel::of_lines("p", ["", ""], [huge]);
    let error = lines("f", "", "", &[panel]).unwrap_err();
    assert!(matches!(error, ReportError::Range { .. }), "{error}");
}

#[test]
fn a_heat_map_is_a_rectangle_with_a_range() {
    let cells = |columns: usize, n: usize, range: (f64, f64)| Cells {
        columns,
        values: vec![1.0; n],
        range,
    };
    for bad in [
        cells(0, 4, (0.0, 1.0)),
        cells(3, 4, (0.0, 1.0)),
        cells(2, 4, (1.0, 1.0)),
        cells(2, 4, (f64::NAN, 1.0)),
        cells(2, 4, (0.0, f64::INFINITY)),
    ] {
        let error = picture("f", "", "", &[panel(vec![Shape::Cells(bad)])]).unwrap_err();
        assert!(matches!(error, ReportError::Cells { .. }), "{error}");
    }
    // Colours of -1 to 1: what is beyond has the colour of the end.
    let mut good = cells(2, 4, (-1.0, 1.0));
    good.values = vec![-1.0, 1.0, -5.0, 5.0];
    let ends = |cells: Cells| {
        picture("f", "", "", &[panel(vec![Shape::Cells(cells)])])
            .unwrap()
            .svg
    };
    let beyond = ends(good.clone());
    good.values = vec![-1.0, 1.0, -1.0, 1.0];
    assert_eq!(ends(good), beyond);
}

#[test]
fn what_is_outside_of_a_given_window_is_not_drawn() {
    let svg = |shape: Shape| picture("f", "", "", &[panel(vec![shape])]).unwrap().svg;
    let outside = [[-1.0, 1.0], [9.0, 1.0], [1.0, -3.0], [1.0, 9.0]];
    let dots = svg(Shape::Dots([&[[1.0, 1.0]][..], &outside].concat()));
    // One in the panel, one in the legend.
    assert_eq!(dots.matches("<circle").count(), 2);
    let clipped = svg(bars(vec![[1.0, 9.0]], vec![]));
    assert_eq!(clipped, svg(bars(vec![[1.0, Y.1]], vec![])));
}

#[test]
fn images_are_pngs_of_the_size_that_they_say() {
    let one = |png: Vec<u8>, size: [usize; 3]| Picture {
        title: "a<b".into(),
        png,
        size,
        number: Some(1.5),
    };
    let good = one(png_head(4, 2), [4, 2, 93]);
    let figure = images("f", "F", "", &[good.clone(), good.clone()]).unwrap();
    assert!(figure.svg.contains("a&lt;b"));
    assert_eq!(figure.svg.matches("data:image/png").count(), 2);
    assert_eq!(figure.rows[1], ["a<b", "4x2x93", "1.5"]);
    for bad in [
        one(Vec::new(), [4, 2, 1]),
        one(b"GIF89a".to_vec(), [4, 2, 1]),
        one(png_head(4, 2)[..20].to_vec(), [4, 2, 1]),
        one(png_head(4, 2), [2, 4, 1]),
        one(png_head(0, 2), [0, 2, 1]),
        one(png_head(4, 0), [4, 0, 1]),
    ] {
        let error = images("f", "", "", &[good.clone(), bad]).unwrap_err();
        assert!(matches!(error, ReportError::Png { .. }), "{error}");
    }
}

#[test]
fn centres_go_from_below_row_by_row() {
    let expected = [[0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.5, 1.5]];
    assert_eq!(centres(2, 2, (0.0, 2.0), (0.0, 2.0)), expected);
}
