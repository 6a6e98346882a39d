//! Whatever is done in whatever order: a store in files does what one in memory does.

use std::{sync::Arc, time::Duration};

use futures::executor::block_on;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    AppendRequest, ChangeBatch, ControlMessage, FileStore, ForkPoint, Lease, LeaseRequest,
    MemoryStore, NewSession, SessionHeader, SessionId, SessionLog, SessionQuery, SessionRelation,
    SessionStatus, SessionStore,
};
use proptest::prelude::*;

use super::world::{definition, id, said};

/// Something that is done. Numbers say which session, and what of it.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Create(usize, usize),
    Fork(usize, usize, u64),
    Append { session: usize, late: bool, count: usize, leased: bool, status: Option<SessionStatus> },
    Repeat,
    Rewind(usize, u64, bool),
    Delete(usize),
    Lease(usize, bool),
    Renew,
    Release,
    Post(usize),
    Collect,
    Note(usize, usize, bool),
    List(usize),
    Reclaim(bool),
    Check,
    Reopen,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn deed() -> impl Strategy<Value = Deed> {
    use Deed::*;
    let session = 0..NAMES.len();
    let status = prop_oneof![
        6 => Just(None),
        1 => prop::sample::select(&SessionStatus::ALL[..]).prop_map(Some),
    ];
    let append = (session.clone(), prop::bool::weighted(0.1), 0..4_usize, any::<bool>(), status);
    prop_oneof![
        3 => (session.clone(), 0..3_usize).prop_map(|(it, count)| Create(it, count)),
        2 => (session.clone(), session.clone(), 0..6_u64).prop_map(|(a, b, at)| Fork(a, b, at)),
        9 => append.prop_map(|(session, late, count, leased, status)| {
            Append { session, late, count, leased, status }
        }),
        2 => Just(Repeat),
        3 => (session.clone(), 0..6_u64, any::<bool>()).prop_map(|(it, at, by)| Rewind(it, at, by)),
        1 => session.clone().prop_map(Delete),
        3 => (session.clone(), any::<bool>()).prop_map(|(it, instead)| Lease(it, instead)),
        1 => Just(Renew),
        2 => Just(Release),
        2 => session.clone().prop_map(Post),
        2 => Just(Collect),
        2 => (session, 0..3_usize, any::<bool>()).prop_map(|(it, count, keep)| Note(it, count, keep)),
        2 => (0..6_usize).prop_map(List),
        1 => any::<bool>().prop_map(Reclaim),
        1 => Just(Check),
        2 => Just(Reopen),
    ]
}

/// What was appended.
#[derive(Clone, Copy)]
struct Appended {
    session: usize,
    expected: u64,
    first: u64,
    count: usize,
    status: Option<SessionStatus>,
    handled: Option<u64>,
    now: Timestamp,
}

/// Two stores that are to be the same.
struct Both {
    dir: tempfile::TempDir,
    memory: MemoryStore,
    files: FileStore,
    lease: Option<Lease>,
    /// What was appended last.
    last: Option<Appended>,
    /// The session of which control messages were collected last, and the number of the last one.
    collected: Option<(SessionId, u64)>,
}

impl Both {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = FileStore::open(dir.path()).unwrap();
        Self { dir, memory: MemoryStore::new(), files, lease: None, last: None, collected: None }
    }

    fn stores(&self) -> [&dyn SessionStore; 2] {
        [&self.memory, &self.files]
    }

    fn header(&self, session: usize) -> Option<SessionHeader> {
        block_on(self.memory.header(&id(NAMES[session]))).unwrap()
    }

    /// Does the same with both, and compares what they say.
    fn same(&self, deed: &impl AsyncFn(&dyn SessionStore) -> String) {
        let [memory, files] = self.stores().map(|store| block_on(deed(store)));
        assert_eq!(memory, files);
    }

    fn append(&self, appended: Appended, lease: Option<&Lease>) {
        let Appended { session, expected, first, count, status, handled, now } = appended;
        let (id, changes, title) = (id(NAMES[session]), said(first, count), "about".into());
        self.same(&async |store| {
            let batch = ChangeBatch { first, changes: &changes };
            let title = (count == 3).then_some(&title);
            let write = AppendRequest::new(&id, expected, batch, now);
            told(store.append(AppendRequest { status, title, handled, lease, ..write }).await)
        });
    }

    fn create(&self, header: &SessionHeader, first: u64, count: usize) {
        let (definition, changes) = (definition(), said(first, count));
        self.same(&async |store| {
            told(
                store
                    .create(NewSession { header, definition: &definition, changes: &changes })
                    .await,
            )
        });
    }

    fn act(&mut self, deed: Deed, now: Timestamp) {
        match deed {
            Deed::Create(session, count) => {
                let mut header = SessionHeader::new(id(NAMES[session]), "agent", now);
                header.workdir = (count == 1).then(|| "/w".into());
                self.create(&header, 0, count);
            }
            Deed::Fork(source, name, at) => {
                let Some(source) = self.header(source) else { return };
                let mut header = SessionHeader::new(id(NAMES[name]), "fork", now);
                header.parent = Some(source.id.clone());
                header.from = Some(ForkPoint { session: source.id, branch: source.branch, at });
                self.create(&header, at, usize::from(at > 3));
            }
            Deed::Append { session, late, count, leased, status } => {
                let header = self.header(session);
                let (version, length) = header.map_or((1, 0), |it| (it.version, it.length));
                let expected = version - u64::from(late);
                let lease = self.lease.as_ref().filter(|it| leased && it.id == id(NAMES[session]));
                let collected = self.collected.as_ref().filter(|it| it.0 == id(NAMES[session]));
                let handled = collected.map(|it| it.1).filter(|_| count == 2);
                let first = length;
                let appended = Appended { session, expected, first, count, status, handled, now };
                self.append(appended, lease);
                self.last = Some(appended);
            }
            Deed::Repeat => self.repeat(),
            Deed::Rewind(session, at, leased) => {
                let version = self.header(session).map_or(1, |it| it.version);
                let lease = self.lease.as_ref().filter(|_| leased);
                let id = id(NAMES[session]);
                self.same(&async |store| told(store.rewind(&id, version, at, lease, now).await));
            }
            Deed::Delete(session) => {
                let id = id(NAMES[session]);
                self.same(&async |store| told(store.delete(&id, now).await));
            }
            Deed::Lease(session, instead) => {
                let (id, lasts) = (id(NAMES[session]), Duration::from_millis(300));
                let instead_of = instead.then_some("me");
                let claim = LeaseRequest { owner: "me", replaces: instead_of, now, ttl: lasts };
                let taken = self.stores().map(|store| block_on(store.lease(&id, claim)));
                let [memory, files] = taken;
                assert_eq!(told(memory.as_ref()), told(files.as_ref()));
                self.lease = files.ok().or(self.lease.take());
            }
            Deed::Renew => {
                let Some(lease) = &self.lease else { return };
                let lasts = Duration::from_millis(500);
                self.same(&async |store| told(store.renew(lease, now, lasts).await));
            }
            Deed::Release => {
                let Some(lease) = &self.lease else { return };
                self.same(&async |store| told(store.release(lease).await));
            }
            Deed::Post(session) => {
                let id = id(NAMES[session]);
                self.same(&async |store| {
                    told(store.send_control(&id, &ControlMessage::Stop).await)
                });
            }
            Deed::Collect => {
                let Some(lease) = &self.lease else { return };
                self.same(&async |store| told(store.take_control(lease).await));
                let posted = block_on(self.files.take_control(lease)).unwrap_or_default();
                self.collected = posted.last().map(|it| (lease.id.clone(), it.number));
            }
            Deed::Note(session, count, forget) => {
                let (log, keep) =
                    if forget { (SessionLog::Events, Some(2)) } else { (SessionLog::Files, None) };
                let bodies = vec![Arc::<[u8]>::from(&now.millis().to_le_bytes()[..]); count];
                let id = id(NAMES[session]);
                self.same(&async |store| told(store.append_log(&id, log, &bodies, keep).await));
            }
            Deed::List(which) => self.list(which),
            Deed::Reclaim(abandoned) => {
                self.same(&async |store| told(store.reclaim(abandoned).await));
            }
            Deed::Check => self.same(&async |store| told(store.check(true).await)),
            Deed::Reopen => self.files = FileStore::open(self.dir.path()).unwrap(),
        }
    }

    fn repeat(&self) {
        if let Some(last) = self.last {
            self.append(last, self.lease.as_ref());
        }
    }

    /// Compares all pages of a query.
    fn list(&self, which: usize) {
        let all = SessionQuery::first(1 + which % 2);
        let query = match which {
            0 | 1 => all,
            2 => SessionQuery { status: Some(SessionStatus::Deleted), ..all },
            3 => SessionQuery { agent_name: Some("agent".into()), ..all },
            4 => SessionQuery { workdir: Some("/w".into()), ..all },
            _ => SessionQuery { kinship: SessionRelation::ChildOf(id("a")), ..all },
        };
        self.same(&async |store| {
            let (mut query, mut pages) = (query.clone(), Vec::new());
            loop {
                let page = store.list(&query).await.unwrap();
                pages.push(page.sessions);
                let Some(next) = page.next else { return format!("{pages:#?}") };
                query.after = Some(next);
            }
        });
    }

    /// Compares all that can be read.
    fn compare(&self) {
        for name in NAMES {
            let id = id(name);
            self.same(&async |store| told(store.header(&id).await));
            self.same(&async |store| told(store.load(&id).await));
            self.same(&async |store| told(store.definition(&id).await));
            self.same(&async |store| told(store.read_log(&id, SessionLog::Files, 1, 3).await));
            let notes = self
                .stores()
                .map(|it| block_on(it.read_log(&id, SessionLog::Events, 0, 99)).unwrap());
            let [memory, files] = notes;
            assert!(files.ends_with(&memory), "{files:?} {memory:?}");
        }
        for which in 0..6 {
            self.list(which);
        }
    }
}

fn told<T: std::fmt::Debug>(result: Result<T, impl std::fmt::Display>) -> String {
    match result {
        Ok(value) => format!("{value:#?}"),
        Err(error) => error.to_string(),
    }
}

/// How many sequences are tried.
fn cases() -> u32 {
    if std::env::var_os("LOOPWRIGHT_LONG").is_some() { 2_000 } else { 64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), fork: false, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_gives_the_same_result_in_files_as_in_memory(
        deeds in prop::collection::vec((deed(), 0..900_u64), 1..60),
    ) {
        let mut both = Both::new();
        for (deed, millis) in deeds {
            both.act(deed, Timestamp::from_millis(1_000 + millis));
        }
        both.compare();
        both.files = FileStore::open(both.dir.path()).unwrap();
        both.compare();
        prop_assert_eq!(block_on(both.files.check(false)).unwrap(), []);
    }
}
