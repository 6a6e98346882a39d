//! What every ledger must do.

use std::time::Duration;

use loopwright_core::{
    Spend, Timestamp,
    messages::{Cost, Usage},
};

use super::{ConformanceCase, create};
use crate::{
    header::SessionHeader,
    id::{PrincipalTag, SessionId},
    jobs::Job,
    ledger::{AllowanceRequest, LEDGER_DAY, UsageLedger},
    store::SessionStore,
};

macro_rules! ledger_facts {
    ($($name:ident),* $(,)?) => {
        /// What holds of every store that counts usage.
        pub const LEDGER_CASES: &[ConformanceCase] = &[
            $(ConformanceCase { name: stringify!($name), check: |store| Box::pin($name(store)) }),*
        ];
    };
}

ledger_facts![
    an_allowance_is_shared_and_never_exceeded,
    spend_counts_once_for_the_day_and_the_principal_of_its_session,
    open_jobs_are_those_of_a_principal,
];

fn ledger(store: &dyn SessionStore) -> &dyn UsageLedger {
    store.ledger().unwrap()
}

fn spend(tokens: u64, picodollars: u64) -> Spend {
    Spend { usage: Usage::new(tokens, 0), cost: Cost::from_picodollars(picodollars) }
}

async fn session(store: &dyn SessionStore, tag: Option<&PrincipalTag>) -> SessionId {
    let id = tag.map_or_else(SessionId::generate, SessionId::generate_tagged);
    let header = SessionHeader::new(id.clone(), "agent", Timestamp::from_millis(0));
    create(store, &header, &[]).await;
    id
}

async fn an_allowance_is_shared_and_never_exceeded(store: &dyn SessionStore) {
    let (ada, bob) = (PrincipalTag::of("ada"), PrincipalTag::of("bob"));
    // A store on many machines has a clock of its own, which stays within this period.
    let request =
        |wanted| AllowanceRequest { wanted, limit: 5, period: Duration::from_hours(1_000_000) };
    let now = Timestamp::from_millis(1);
    let take = async |tag, wanted| {
        let allowance = ledger(store).take(tag, &request(wanted), now).await.unwrap();
        assert!(!allowance.left.is_zero());
        allowance.granted
    };
    let taken = futures::join!(
        take(Some(&ada), 2),
        take(Some(&ada), 2),
        take(Some(&ada), 2),
        take(Some(&ada), 2)
    );
    assert_eq!(taken.0 + taken.1 + taken.2 + taken.3, 5);
    assert_eq!(take(Some(&ada), 1).await, 0);
    assert_eq!((take(Some(&bob), 9).await, take(None, 3).await), (5, 3));
}

async fn spend_counts_once_for_the_day_and_the_principal_of_its_session(store: &dyn SessionStore) {
    let ada = PrincipalTag::of("ada");
    let (one, two) = (session(store, Some(&ada)).await, session(store, Some(&ada)).await);
    let own = session(store, None).await;
    let now = Timestamp::from_millis(1);
    let record = async |id, before, total| {
        ledger(store).record_spend(id, before, total, now).await.unwrap();
    };
    let today = async |tag| {
        let day = ledger(store).spent_today(tag, now).await.unwrap();
        assert!(day.left > Duration::ZERO && day.left <= LEDGER_DAY);
        (day.tokens, day.picodollars)
    };
    assert_eq!(today(Some(&ada)).await, (0, 0));
    record(&one, spend(0, 0), spend(10, 7)).await;
    record(&one, spend(0, 0), spend(10, 7)).await;
    assert_eq!(today(Some(&ada)).await, (10, 7));
    // A fork began with what its source had consumed.
    record(&two, spend(10, 7), spend(15, 8)).await;
    assert_eq!(today(Some(&ada)).await, (15, 8));
    // After a rewind, the session counts on from there.
    record(&one, spend(10, 7), spend(4, 7)).await;
    record(&one, spend(4, 7), spend(6, 9)).await;
    assert_eq!(today(Some(&ada)).await, (17, 10));
    // What is deleted was consumed all the same.
    store.delete(&one, now).await.unwrap();
    store.reclaim(true).await.unwrap();
    assert_eq!(today(Some(&ada)).await, (17, 10));
    record(&own, spend(0, 0), spend(3, 3)).await;
    assert_eq!((today(None).await, today(Some(&PrincipalTag::of("bob"))).await), ((3, 3), (0, 0)));
}

async fn open_jobs_are_those_of_a_principal(store: &dyn SessionStore) {
    let (ada, bob) = (PrincipalTag::of("ada"), PrincipalTag::of("bob"));
    for tag in [Some(&ada), Some(&ada), None] {
        let id = session(store, tag).await;
        let job = Job::resume(id);
        store.jobs().unwrap().push(&job, Timestamp::from_millis(0)).await.unwrap();
    }
    let open = async |tag| ledger(store).open_jobs(tag).await.unwrap();
    assert_eq!((open(Some(&ada)).await, open(Some(&bob)).await, open(None).await), (2, 0, 1));
}
