//! A panic in a server ends its process, loudly, and its supervisor starts it again: a task that is gone would be missed by
//! nobody but the clients that wait for it, and what it left half done under a lock would be gone on with.

/// From here on a panic of any thread ends the process; but that of a command in the state machine, which is caught.
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
