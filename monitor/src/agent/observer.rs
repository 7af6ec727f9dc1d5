//! Samples without an agent: for `top`, `status`, `explain` and `rank`. Nothing is served, nothing
//! is done, and dropping it leaves nothing attached.

use super::meter::Meter;
use super::pace::TICK;
use super::plan::Plan;
use super::sampler::{Sampler, Source};
use crate::clock;
use crate::serve::publish::{Publisher, channel};
use isobar_core::model::capability::Capability;
use isobar_core::model::cost::Cost;
use isobar_core::model::decision::Ranking;
use isobar_core::model::sample::{Cause, Gap};
use isobar_core::policy::engine::{Engine, Standing, Step};
use isobar_core::policy::rank::Purpose;
use isobar_core::view::View;
use isobar_core::view::suspects::suspect;

#[derive(Debug)]
pub struct Observer<S> {
    sampler: Sampler<S>,
    engine: Engine,
    publisher: Publisher,
    meter: Meter,
}

impl<S: Source> Observer<S> {
    /// Takes the first sample, which the first observation is compared with.
    pub fn new(source: S, plan: Plan) -> Self {
        let Plan { mut settings, pods, .. } = plan;
        settings.relief.enforce.clear();
        let facts = source.facts();
        let mut publisher = Publisher::new(facts.clone(), clock::now(), channel().0);
        publisher.set_settings(&settings);
        let engine = Engine::new(settings, Standing::new(facts.n_cpus));
        let sampler = Sampler::new(source, pods);
        let mut observer = Self { sampler, engine, publisher, meter: Meter::default() };
        observer.step();
        observer
    }

    /// Waits for a tick, and shows what happened in it.
    pub fn observe(&mut self) -> View {
        std::thread::sleep(TICK);
        let (step, capabilities, cost) = self.step();
        self.publisher.view(step, capabilities, cost)()
    }

    /// Waits for a tick, and ranks every candidate for `purpose`.
    pub fn rank(&mut self, purpose: Purpose) -> Option<Ranking> {
        std::thread::sleep(TICK);
        let (step, ..) = self.step();
        self.engine.rank(&step.snapshot, purpose)
    }

    /// What the last sample could not read.
    pub fn gaps(&self) -> &[Gap] {
        self.engine.standing().before.as_ref().map_or(&[], |sample| &sample.gaps)
    }

    fn step(&mut self) -> (Step, Vec<Capability>, Cost) {
        self.meter.begin();
        let reading = self.sampler.sample(Cause::Timer, None, self.engine.settings());
        self.meter.has_read();
        let step = self.engine.step(reading.sample);
        self.sampler.source.look_for(|of| suspect(of, &step.snapshot, &step.decision));
        let cost = self.meter.cost(clock::now().boot, None, reading.kernel);
        (step, reading.capabilities, cost)
    }
}
