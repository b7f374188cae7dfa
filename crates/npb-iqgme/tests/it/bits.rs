//! Equal bits on any number of threads, and after a stop.

use npb_infer::storage::{from_bytes, to_bytes};
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_iqgme::{IqgmeConfig, IqgmeData, IqgmeVb, Start, fit};

use crate::data::{config, three_gaussians};

#[test]
fn same_on_1_2_and_4_threads() {
    let (table, labels) = three_gaussians(1, 400, 3, 0.3, 0.2);
    let config = IqgmeConfig {
        starts: vec![Start::KMeans(3), Start::PerClass(2)],
        restarts: 2,
        ..config(1)
    };
    same_bits_on_threads(&[1, 2, 4], || {
        let fitted = fit(&table, &labels, &config).unwrap();
        let mut bytes = fitted.to_bytes().unwrap();
        for p in fitted.predict_proba(&table).unwrap() {
            bytes.extend(p.to_bits().to_le_bytes());
        }
        bytes
    })
    .unwrap();
}

#[test]
fn same_after_a_stop() {
    let (table, labels) = three_gaussians(2, 100, 1, 0.3, 0.1);
    let config = IqgmeConfig {
        prior_scale: npb_iqgme::PriorScale::Bound,
        ..config(2)
    };
    let data = IqgmeData::new(&table, &labels, &config).unwrap();
    type Half<'d> = (IqgmeVb<'d>, Vec<npb_infer::VbReport>);
    let start = || {
        (
            IqgmeVb::new(&data, config.clone(), Start::KMeans(4), 0).unwrap(),
            Vec::new(),
        )
    };
    same_bits_when_resumed(
        10,
        &[1, 4, 9],
        start,
        |half: &mut Half<'_>, n| {
            let (vb, trace) = half;
            let limits = IqgmeConfig {
                max_iterations: trace.len() as u64 + n,
                tolerance: 1e-300,
                ..config.clone()
            };
            let mut run =
                IqgmeVb::resume(&data, limits, vb.state().clone(), trace.clone()).unwrap();
            *trace = run
                .run(|_, _| std::ops::ControlFlow::Continue(()))
                .unwrap()
                .trace;
            *vb = run;
        },
        |(vb, trace)| to_bytes("test", "0", &(vb.state(), trace)).unwrap(),
        |bytes| {
            let (state, trace): (npb_iqgme::IqgmeState, Vec<npb_infer::VbReport>) =
                from_bytes("test", bytes).unwrap();
            (
                IqgmeVb::resume(&data, config.clone(), state, trace.clone()).unwrap(),
                trace,
            )
        },
    )
    .unwrap();
}
