//! The helper process of `loopwright-sandbox`, for programs that cannot be their own helper.

fn main() {
    loopwright_sandbox::init();
    // Started by hand, it has nothing to do.
}
