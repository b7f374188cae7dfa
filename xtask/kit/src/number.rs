//! Numbers as people read them.

/// Four significant digits, for tables.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - magnitude).max(0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.98765), "0.9877");
        assert_eq!(short(12.3456), "12.35");
        assert_eq!(short(123456.0), "123456");
        assert_eq!(short(-0.00123456), "-0.001235");
        assert_eq!(short(1.5e-9), "1.500e-9");
        assert_eq!(short(0.0), "0");
    }
}
