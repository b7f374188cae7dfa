//! Okabe and Ito's colours, which stay apart for colour-blind readers.

/// A colour: red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Black.
pub const BLACK: Colour = Colour(0, 0, 0);
/// Grey.
pub const GREY: Colour = Colour(130, 130, 130);
/// Blue.
pub const BLUE: Colour = Colour(0, 114, 178);
/// Vermillion.
pub const VERMILLION: Colour = Colour(213, 94, 0);
/// Green.
pub const GREEN: Colour = Colour(0, 158, 115);
/// Purple.
pub const PURPLE: Colour = Colour(204, 121, 167);
/// Orange.
pub const ORANGE: Colour = Colour(230, 159, 0);
/// Sky blue.
pub const SKY: Colour = Colour(86, 180, 233);

/// Colours of layers without one of their own, in the order of the legend.
pub(crate) const PALETTE: [Colour; 8] = [
    BLACK,
    VERMILLION,
    BLUE,
    GREEN,
    PURPLE,
    ORANGE,
    SKY,
    Colour(120, 120, 120),
];

/// Steps of a heat map's colours: as many as a legend can tell apart.
pub(crate) const BANDS: usize = 10;

/// The step of a share from 0 to 1.
pub(crate) fn band(share: f64) -> usize {
    ((share * BANDS as f64) as usize).min(BANDS - 1)
}

/// A colour on the way from nearly white to another; the share is cut to 0 to 1.
pub(crate) fn towards(end: Colour, share: f64) -> Colour {
    let middle = Colour(247, 247, 247);
    let t = share.clamp(0.0, 1.0);
    let mix = |a: u8, b: u8| (f64::from(a) + t * (f64::from(b) - f64::from(a))).round() as u8;
    Colour(
        mix(middle.0, end.0),
        mix(middle.1, end.1),
        mix(middle.2, end.2),
    )
}

/// From blue through nearly white to vermillion.
pub(crate) fn band_colour(band: usize) -> Colour {
    let t = 2.0 * (band as f64 + 0.5) / BANDS as f64 - 1.0;
    towards(if t < 0.0 { BLUE } else { VERMILLION }, t.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sure_probabilities_have_the_strongest_colours() {
        assert_eq!((band(0.0), band(0.5), band(1.0)), (0, BANDS / 2, BANDS - 1));
        assert_eq!((band(-3.0), band(7.0)), (0, BANDS - 1));
        let light = |band: usize| u32::from(band_colour(band).1);
        assert!(light(0) < light(4) && light(9) < light(5));
    }
}
