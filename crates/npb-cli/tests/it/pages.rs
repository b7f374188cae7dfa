//! Pages about models whose files are no tables of features, about many labels, and about images.

use crate::report::{assert_page, models};
use crate::{Folder, said};

#[test]
fn ratings_likes_labels_and_topics_have_a_page_with_and_without_a_file() {
    let folder = models("pages");
    let sweeps = "--set sweeps.burn_in=20 --set sweeps.keep=20 --set stored_draws=20";
    let places = "--row user --column item --value stars";
    folder.npb(&format!(
        "-q fit ratings r.csv {places} {sweeps} -o ratings.npb"
    ));
    folder
        .npb("-q fit groups r.csv --group user --item item --value stars --liked 4 -o groups.npb");
    folder.npb("-q fit labels p.csv --labels y.csv --id id --ignore ill -o labels.npb");
    folder.npb("-q fit topics d.txt --set topics=2 -o topics.npb");
    // A cell that the fit has, one that it has not, and one of an unknown item.
    folder.write("cells.csv", "user,item,stars\nu0,i2,3\nu0,i0,4\nu1,i99,1\n");
    let labels = folder.read("y.csv");
    let labels = labels
        .lines()
        .map(|line| line.split_once(',').expect("an id").1);
    let rows: Vec<String> = folder
        .read("p.csv")
        .lines()
        .zip(labels)
        .map(|(a, b)| format!("{a},{b}\n"))
        .collect();
    folder.write("with-labels.csv", rows.concat());
    folder.write("words.txt", "even 4:1 5:2\nodd 0:2 1:3 2:1\nother 0:1\n");
    for (kind, file, words) in [
        (
            "ratings",
            "cells.csv",
            [
                "left out: 1 are entries of the fit, 1 are of rows or columns",
                "By the 1 cells",
            ],
        ),
        (
            "groups",
            "r.csv",
            ["has as many ratings", "half of the ratings of each"],
        ),
        (
            "labels",
            "with-labels.csv",
            ["Label by label", "may be what the model was fitted to"],
        ),
        (
            "topics",
            "words.txt",
            ["1 of 3 documents of words.txt", "100.0% are told right"],
        ),
    ] {
        folder.npb(&format!("-q report {kind}.npb -o alone.html"));
        assert_page(
            &folder.read("alone.html"),
            &["What went in", "All settings"],
        );
        folder.npb(&format!("-q report {kind}.npb {file} -o page.html"));
        let page = folder.read("page.html");
        assert_page(&page, &["All settings", file, words[0], words[1]]);
        folder.npb(&format!(
            "-q --threads 3 report {kind}.npb {file} --seed 0 -o again.html"
        ));
        assert_eq!(folder.read("again.html"), page, "{kind}");
    }
}

#[test]
fn texts_of_a_table_have_their_classes_in_some_column() {
    let folder = Folder::new("pages-texts");
    let text = |i: usize| ["ball goal team ball", "vote law court vote"][i % 2];
    let line = |i: usize| {
        format!(
            "{i},{} {},{}\n",
            text(i),
            ["big", "old"][i % 3 % 2],
            ["sport", "state"][i % 2]
        )
    };
    let lines: String = (0..30).map(line).collect();
    folder.write("posts.csv", format!("n,body,about\n{lines}"));
    folder.npb("-q fit topics posts.csv --text body --label about --min-documents 1 --set topics=2 -o t.npb");
    folder.npb("-q report t.npb posts.csv -o t.html");
    let page = folder.read("t.html");
    assert_page(
        &page,
        &[
            "By 30 documents of posts.csv",
            "100.0% are told right",
            "as many documents",
        ],
    );
}

#[test]
fn groups_of_rows_have_a_page() {
    let folder = Folder::new("pages-grouped");
    let ill = |i: usize| ["ill", "well"][usize::from(i.is_multiple_of(2) == i.is_multiple_of(3))];
    let line = |i: usize| {
        format!(
            "{},{},{}\n",
            ["north", "south", "west"][i % 3],
            f64::from((i % 2) as u8) + i as f64 / 90.0,
            ill(i)
        )
    };
    let lines: String = (0..60).map(line).collect();
    folder.write("f.csv", format!("place,x,y\n{lines}"));
    folder.npb("-q fit grouped f.csv --group place --label y -o g.npb");
    folder.npb("-q report g.npb f.csv -o g.html");
    assert_page(
        &folder.read("g.html"),
        &[
            "What groups share",
            "Group by group",
            "may be what the model was fitted to",
        ],
    );
}

#[test]
fn a_restored_image_has_a_page() {
    let folder = Folder::new("pages-image");
    let shade =
        |x: u32, y: u32| [60, 190][((x / 4 + y / 6) % 2) as usize] + (x * 31 + y * 17) % 41 - 20;
    let image = image::GrayImage::from_fn(32, 28, |x, y| image::Luma([shade(x, y) as u8]));
    image.save(folder.path("in.png")).expect("a file");
    let small = "--set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=10 --set model.sweeps.keep=10";
    let words = said(
        &folder,
        &format!("denoise in.png -o out.png --report page.html {small}"),
    );
    let page = folder.read("page.html");
    assert_page(
        &page,
        &[
            "out.png: image",
            "in.png",
            "32 x 28 pixels",
            "The dictionary",
            "data:image/png;base64,",
        ],
    );
    // The same noise as on the screen, in two decimals.
    let noise = words
        .split("noise sd ")
        .nth(1)
        .expect("noise")
        .split_whitespace()
        .next()
        .expect("a number");
    let noise: f64 = noise
        .trim_end_matches([',', ';'])
        .parse()
        .expect("a number");
    let cell = page
        .split("<td>modelled</td><td class=\"n\">")
        .nth(1)
        .expect("a channel");
    let cell: f64 = cell
        .split('<')
        .next()
        .expect("a cell")
        .parse()
        .expect("a number");
    assert!((noise - cell).abs() < 0.006, "{noise} {cell}");
    let error = folder.fails("denoise in.png -o x.png --report no/such/page.html", 2);
    assert!(error.contains("there is no folder no/such"), "{error}");
}
