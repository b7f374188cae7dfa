//! Questions about what was not there at the fit: users, films, tasks, groups.

use crate::fits::{RATINGS, stars};
use crate::{Folder, cells, said};

#[test]
fn a_new_user_is_known_by_a_file() {
    let folder = Folder::new("new-user");
    folder.write("r.csv", stars());
    folder.npb(&format!("{RATINGS} -o r.npb"));
    // Likes odd films, as odd users do; one film is not in the fit.
    folder.write(
        "me.csv",
        "user,film,stars\nme,f1,5\nme,f2,2\nme,f3,5\nme,f4,2\nme,unknown,5\nother,f0,5\n",
    );
    let words = said(&folder, "recommend r.npb --row me --exclude me.csv --top 5");
    assert!(
        words.contains("1 of 6 names are not in the fit, such as \"unknown\""),
        "{words}"
    );
    assert!(words.contains("--row me was not in the fit"), "{words}");
    for by in ["mean", "P(>=4)"] {
        let best = cells(&folder.npb(&format!(
            "-q recommend r.npb --row me --exclude me.csv --top 5 --by {by}"
        )));
        assert_eq!(best.len(), 6);
        for row in &best[1..] {
            let film: usize = row[0][1..].parse().expect("a film");
            assert!(film % 2 == 1 && film > 3, "{best:?}");
        }
    }
    let error = folder.fails("recommend r.npb --row you --exclude me.csv", 2);
    assert!(
        error.contains("you") && error.contains("--exclude"),
        "{error}"
    );
    // The next films to ask of one user are open ones of that user.
    let next = cells(&folder.npb("next r.npb --row u3 -n 20"));
    let open: Vec<String> = (0..15)
        .filter(|film| (9 + film) % 4 == 0)
        .map(|film| format!("f{film}"))
        .collect();
    let mut found: Vec<String> = next[1..].iter().map(|row| row[1].clone()).collect();
    assert!(next[1..].iter().all(|row| row[0] == "u3"), "{next:?}");
    found.sort();
    let mut wanted = open;
    wanted.sort();
    assert_eq!(found, wanted);
    // Nothing is asked that the fit knows.
    let known = stars();
    for row in &cells(&folder.npb("next r.npb -n 30"))[1..] {
        assert!(
            !known.contains(&format!("{},{},", row[0], row[1])),
            "{row:?}"
        );
    }
    assert!(
        folder
            .fails("next r.npb --row nobody", 2)
            .contains("nobody")
    );
    // Unknown pairs have empty rows, with a count.
    folder.write("ask.csv", "user,film\nu1,f1\nu1,f99\nu2,f2\n");
    assert!(said(&folder, "predict r.npb ask.csv").contains("f99"));
    let rows = cells(&folder.npb("-q predict r.npb ask.csv"));
    assert_eq!(
        (rows.len(), rows[2][2].as_str(), rows[3][2].is_empty()),
        (4, "", false)
    );
}

#[test]
fn pairs_that_occur_again_have_an_option() {
    let folder = Folder::new("duplicates");
    folder.write("once.csv", stars());
    folder.write("twice.csv", stars() + "u1,f0,5\nu0,f1,1\n");
    let last = stars()
        .replace("u0,f1,2\n", "u0,f1,1\n")
        .replace("u1,f0,2\n", "u1,f0,5\n");
    folder.write("last.csv", last);
    let mean = stars()
        .replace("u0,f1,2\n", "u0,f1,1.5\n")
        .replace("u1,f0,2\n", "u1,f0,3.5\n");
    folder.write("mean.csv", mean);
    let fit = |file: &str, more: &str| RATINGS.replace("r.csv", file) + " " + more;
    let error = folder.fails(&fit("twice.csv", "-o x.npb"), 3);
    assert!(error.contains("--duplicates last"), "{error}");
    folder.write("ask.csv", "user,film\nu0,f1\nu1,f0\nu5,f4\n");
    for how in ["last", "mean"] {
        folder.npb(&fit("twice.csv", &format!("--duplicates {how} -o d.npb")));
        folder.npb(&fit(&format!("{how}.csv"), "-o e.npb"));
        let [found, expected] = ["d", "e"].map(|m| folder.npb(&format!("predict {m}.npb ask.csv")));
        assert_eq!(found, expected, "{how}");
    }
    let likes = "--group user --item film --value stars --liked 4";
    folder.npb(&format!(
        "fit groups twice.csv {likes} --duplicates last -o g.npb"
    ));
    assert!(folder.npb("diagnose g.npb").starts_with("iteration,elbo"));
    let shown = cells(&folder.npb("summary g.npb"));
    assert_eq!(shown[0], ["film", "ratings"]);
    assert!(shown.iter().skip(1).all(|row| row[1] == "18"), "{shown:?}");
    folder.write("me.csv", "user,film,stars\nme,f1,5\nme,nothing,5\n");
    let words = said(&folder, "recommend g.npb --row me --exclude me.csv");
    assert!(words.contains("1 of 2 names are not in the fit"), "{words}");
}

/// Rows of places, of which the south has signs the other way round.
fn places(
    rows: std::ops::Range<usize>,
    place: impl Fn(usize) -> &'static str,
    labelled: bool,
) -> String {
    let line = |i: usize| {
        let (ill, place) = (i % 2 == 1, place(i));
        let sign = if ill != place.ends_with("south") {
            1.0
        } else {
            -1.0
        };
        let [a, b] = [7, 5].map(|k| sign * 1.2 + ((i * k) % 11) as f64 / 6.0 - 0.83);
        let label = if labelled {
            ["well", "ill"][usize::from(ill)]
        } else {
            ""
        };
        format!("{place},{a:.3},{b:.3},{label}\n")
    };
    "place,a,b,y\n".to_owned() + &rows.map(line).collect::<String>()
}

/// A new place by its own labels, or by none.
#[test]
fn new_tasks_and_groups_have_a_way_on() {
    let folder = Folder::new("new-tasks");
    folder.write(
        "f.csv",
        places(0..120, |i| ["north", "south"][i / 2 % 2], true),
    );
    folder.write("new.csv", places(200..220, |_| "deep-south", true));
    folder.write("bare.csv", places(200..220, |_| "deep-south", false));
    folder.write(
        "mixed.csv",
        "place,a,b\nnorth,1.5,1.5\ndeep-south,1.5,1.5\n",
    );
    for (fit, kind) in [
        (
            "tasks f.csv --task place --label y --set single.restarts=1",
            "tasks",
        ),
        ("grouped f.csv --group place --label y", "grouped"),
    ] {
        folder.npb(&format!("fit {fit} -o m.npb"));
        let words = said(&folder, "predict m.npb mixed.csv");
        assert!(
            words.contains("no answer for 1 rows, as \"deep-south\" was not in training")
                && words.contains("--new-tasks"),
            "{kind}: {words}"
        );
        let rows = cells(&folder.npb("-q predict m.npb mixed.csv --interval 0.9"));
        assert_eq!(
            (rows[1][1].as_str(), rows[2][1].as_str()),
            ("ill", ""),
            "{kind}: {rows:?}"
        );
        let error = folder.fails("predict m.npb mixed.csv --unseen-levels error", 3);
        assert!(error.contains("--new-tasks"), "{kind}: {error}");
        let found = cells(&folder.npb("predict m.npb new.csv --new-tasks --interval 0.9"));
        assert_eq!(
            found[0][1..],
            [
                "class",
                "P(ill)",
                "lower(ill)",
                "upper(ill)",
                "P(well)",
                "lower(well)",
                "upper(well)"
            ]
        );
        let right = (0..20)
            .filter(|&i| found[i + 1][1] == ["well", "ill"][i % 2])
            .count();
        assert!(right >= 18, "{kind}: {right} {found:?}");
        // Without labels the new place is like the others, of which there are two that contradict each other.
        let found = cells(&folder.npb("predict m.npb bare.csv --new-tasks"));
        assert!(
            found[1..].iter().all(|row| !row[1].is_empty()),
            "{kind}: {found:?}"
        );
    }
    assert!(
        folder
            .npb("summary m.npb")
            .starts_with("group,own_weight\n")
    );
    assert!(folder.npb("diagnose m.npb").starts_with("iteration,"));
    let gap = places(0..40, |_| "north", true);
    let gap = gap.lines().enumerate().map(|(i, line)| {
        if i == 3 {
            "north,,1,well".to_owned()
        } else {
            line.to_owned()
        }
    });
    folder.write("gap.csv", gap.collect::<Vec<_>>().join("\n"));
    let error = folder.fails("fit grouped gap.csv --group place --label y -o x.npb", 3);
    assert!(
        error.contains("1 cells are missing") && error.contains("npb fit tasks"),
        "{error}"
    );
    let labelled = |label: fn(usize) -> String| {
        let row = |i: usize| format!("north,{},{}\n", i % 7, label(i));
        (0..60)
            .map(row)
            .fold("place,a,y\n".to_owned(), |text, row| text + &row)
    };
    folder.write("many.csv", labelled(|i| format!("class{}", i % 8)));
    folder.write("price.csv", labelled(|i| format!("{}.5", i * i)));
    let error = folder.fails("fit grouped many.csv --group place --label y -o x.npb", 3);
    assert!(
        error.contains("8 values (class0, class1, class2, class3, class4, ...)"),
        "{error}"
    );
    let error = folder.fails("fit grouped price.csv --group place --label y -o x.npb", 3);
    assert!(
        error.contains("60 different numbers, from 0.5 to 3481.5"),
        "{error}"
    );
}
