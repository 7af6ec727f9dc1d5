//! isobar's errands: what is done to the project, one file per verb.

mod bench;
mod build;
mod cache;
mod check;
mod demo;
mod dist;
mod fuzz;
mod lab;
mod picture;
mod run;
mod running;
mod setup;
mod test;

use std::process::ExitCode;

use clap::Parser;

/// isobar's errands. What they need is fetched and built on the way.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Errand {
    Setup(setup::Setup),
    Run(run::Run),
    Check(check::Check),
    Test(test::Test),
    Lab(lab::Verb),
    Demo(demo::Demo),
    Load(isobar_lab::load::Load),
    Bench(bench::Bench),
    Fuzz(fuzz::Fuzz),
    Picture(picture::Picture),
    Dist(dist::Dist),
}

fn main() -> ExitCode {
    let done = match Errand::parse() {
        Errand::Setup(verb) => verb.run(),
        Errand::Run(verb) => verb.run(),
        Errand::Check(verb) => verb.run(),
        Errand::Test(verb) => verb.run(),
        Errand::Lab(verb) => verb.run(),
        Errand::Demo(verb) => verb.run(),
        Errand::Load(verb) => verb.run(),
        Errand::Bench(verb) => verb.run(),
        Errand::Fuzz(verb) => verb.run(),
        Errand::Picture(verb) => verb.run(),
        Errand::Dist(verb) => verb.run(),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}
