//! What to show a user next, and which ratings to ask for.
//!
//! `cargo run -p npb-bsvd --example films [ratings.dat]`: a file as MovieLens has it (`user::film::stars::time`), or made-up ratings.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::read;

use npb_bsvd::npb_data::read::{MovieLens, movielens};
use npb_bsvd::{Acquisition, BsvdConfig, Cells, SideInformation, fit};

/// Two tastes; some users are stricter, some days are worse.
fn made_up() -> String {
    let worse = |user: u32, film: u32| {
        u32::from(user.is_multiple_of(3))
            + u32::from(((31 * user + 57 * film) % 97).pow(3) % 89 < 20)
    };
    let stars = |user: u32, film: u32| 5 - 2 * ((user + film) % 2) - worse(user, film);
    let all = (1..=40).flat_map(|user| (1..=25).map(move |film| (user, film)));
    all.filter(|(user, film)| (user * user + 3 * film + user * film) % 5 != 0)
        .map(|(user, film)| format!("{user}::{film}::{}::0\n", stars(user, film)))
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args().nth(1) {
        Some(path) => read(path)?,
        None => made_up().into_bytes(),
    };
    let file = movielens("ratings", &text[..], MovieLens::DoubleColon)?;
    let ratings = file.ratings()?;
    let (side, cells) = (SideInformation::default(), Cells::default());
    let model = fit(&ratings, side, &cells, &BsvdConfig::default())?
        .with_names(&file.row_ids, &file.column_ids)?;

    // A choice that is sure is one that is among the best in nearly all draws.
    println!("for user {}:", file.row_ids[0]);
    for film in model.top(0, 3, ratings.row(0).0)? {
        let name = film.name.unwrap_or_default();
        let (mean, sd) = (film.mean, film.sd);
        println!(
            "  film {name}: {mean:.2} +- {sd:.2}, among the best three with probability {:.2}",
            film.in_top
        );
    }

    println!("most would be learned from:");
    let open = Cells::unobserved(&ratings, 2_000, 1);
    for cell in model.next_cells(&open, 5, Acquisition::Uncorrelated)? {
        let (user, film) = (
            &file.row_ids[cell.row as usize],
            &file.column_ids[cell.column as usize],
        );
        println!("  user {user}, film {film}: +- {:.2} now", cell.sd);
    }
    Ok(())
}
