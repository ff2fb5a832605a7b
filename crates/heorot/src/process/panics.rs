//! A panic in a server ends its process, and the supervisor restarts it. Without that, only the clients of
//! the lost task would notice the panic, and other tasks would continue with state that it left half changed
//! under a lock.

/// Makes a panic of any thread end the process, except a panic of a command in the state machine, which is
/// caught.
pub(crate) fn end_the_process() {
    let says = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        says(panic);
        if !replica::is_guarded() {
            tracing::error!(%panic, "a fault of the program ends this process: start it again, and report this");
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Message of the panic below.
    const FAULT: &str = "a task of a server panics";

    #[test]
    #[ignore = "ends its process: the test below runs it in one of its own"]
    fn panics_in_a_task() {
        command_line::logging::start(false, None, command_line::logging::DEFAULT);
        super::end_the_process();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        runtime.spawn(async { panic!("{FAULT}") });
        // Without the hook the process would continue.
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_panic_in_a_task_ends_the_process_and_is_said() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child =
            child.args(["--ignored", "--exact", "process::panics::tests::panics_in_a_task", "--nocapture"]);
        let output = child.env("RUST_BACKTRACE", "0").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{said}");
        assert!(
            said.contains("ERROR") && said.contains("a fault of the program ends this process"),
            "{said}"
        );
        assert!(said.contains(FAULT) && said.contains("panics.rs"), "what it was, and where: {said}");
    }
}
