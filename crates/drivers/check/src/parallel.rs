//! Work shared by threads.

use std::sync::Mutex;

/// Does `work` on every item, on as many threads as there are `workers`; each has one of those to itself.
pub(crate) fn share<W: Send, T: Send>(
    workers: &mut [W],
    items: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(&mut W, T) + Sync,
) {
    if let [worker] = workers {
        return items.for_each(|item| work(worker, item));
    }
    let items = Mutex::new(items);
    let next = || items.lock().expect("no thread panics with the queue").next();
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(worker, item);
                }
            });
        }
    });
}
