//! Service addresses: clients mount one of these, and it is always on a metaserver that lives.
//!
//! ```text
//! every metaserver ──every 150 ms: "these I hold"──▶ leader: the book
//!        ▲                                              │
//!        └──────"these you may hold for a second"───────┘
//! ```
//!
//! What was granted is put on an interface with that lifetime ([`host::interface`]): the kernel takes it away from who is
//! not granted it again, because he died, hangs, or is cut off. Then the leader grants it to another.

mod assignment;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use host::interface::{ANNOUNCEMENT_GAPS, Interfaces, Patience, announce_with_gaps, take};
use replica::NodeId;

use self::assignment::{ASKING, Assignment, BEAT, LEASE};
use crate::Metaserver;

/// The addresses of a cluster.
pub struct ServiceAddresses {
    /// The same on all metaservers.
    pub addresses: Vec<IpAddr>,
    /// Where to hold them; none: where their network is.
    pub interface: Option<String>,
    /// This machine's.
    pub interfaces: Arc<dyn Interfaces>,
}

/// The leader's book, while this metaserver leads.
#[derive(Default)]
pub(crate) struct Book(Mutex<Option<Assignment>>);

/// What was said of an address last, so that it is said once.
type Troubles = BTreeMap<IpAddr, String>;

impl Metaserver {
    /// Holds what the leader grants, for ever.
    pub(crate) async fn hold_service_addresses(self: Arc<Self>, service: ServiceAddresses) {
        let mut often = tokio::time::interval(BEAT);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut troubles = Troubles::new();
        loop {
            often.tick().await;
            let held = match service.interfaces.held() {
                Ok(held) => held,
                Err(error) => {
                    tracing::warn!(%error, "service addresses");
                    continue;
                }
            };
            let held: Vec<IpAddr> =
                held.into_iter().map(|h| h.address).filter(|a| service.addresses.contains(a)).collect();
            let asked = self.clock.monotonic();
            // No answer: what is held goes when its time is over.
            let Some(granted) = self.ask_for_addresses(&service, held.clone()).await else { continue };
            if self.clock.monotonic().saturating_sub(asked) > BEAT {
                continue; // most of its time is over
            }
            for address in &held {
                if !granted.contains(address)
                    && let Err(error) = service.interfaces.release(*address)
                {
                    tracing::warn!(%address, %error, "a service address is not given back");
                }
            }
            for address in granted {
                self.hold(&service, address, held.contains(&address), &mut troubles).await;
            }
        }
    }

    async fn hold(&self, service: &ServiceAddresses, address: IpAddr, renew: bool, troubles: &mut Troubles) {
        let interfaces = &service.interfaces;
        let named = service.interface.as_deref();
        let outcome = if renew {
            interfaces.find(address, named).and_then(|interface| interfaces.hold(address, &interface, LEASE))
        } else {
            let patience = Patience { solicitations: 2, gap: ASKING / 2 };
            let taken = take(&**interfaces, address, named, LEASE, patience, tokio::time::sleep).await;
            taken.map(|interface| {
                tracing::info!(%address, %interface, "holds a service address");
                let interfaces = Arc::clone(interfaces);
                tokio::spawn(async move {
                    let gaps = &ANNOUNCEMENT_GAPS;
                    let _ =
                        announce_with_gaps(&*interfaces, address, &interface, gaps, tokio::time::sleep).await;
                });
            })
        };
        match outcome {
            Ok(()) => drop(troubles.remove(&address)),
            Err(error) => {
                let said = error.to_string();
                if troubles.get(&address) != Some(&said) {
                    tracing::error!(%address, %error, "a service address cannot be held");
                    troubles.insert(address, said);
                }
            }
        }
    }

    async fn ask_for_addresses(&self, service: &ServiceAddresses, held: Vec<IpAddr>) -> Option<Vec<IpAddr>> {
        let member = self.replica.standing().id;
        if self.replica.leads() {
            // One that was deposed and does not know it yet must not grant what another grants, too.
            tokio::time::timeout(BEAT, self.see_all()).await.ok()?.ok()?;
            let now = self.clock.monotonic();
            let mut book = self.book.0.lock().ok()?;
            let book = book.get_or_insert_with(|| Assignment::new(&service.addresses, now));
            if self.drains(member) {
                book.withhold(member, &held, now);
                return Some(vec![]);
            }
            return Some(book.beat(member, &held, now));
        }
        if let Ok(mut book) = self.book.0.lock() {
            *book = None;
        }
        self.ask_leader_for_addresses(member, held).await
    }

    /// Another metaserver's beat. None: this one does not lead, or has no service addresses.
    pub(crate) async fn grant_addresses(&self, member: NodeId, held: &[IpAddr]) -> Option<Vec<IpAddr>> {
        tokio::time::timeout(BEAT, self.see_all()).await.ok()?.ok()?;
        let mut book = self.book.0.lock().ok()?;
        self.replica.leads().then_some(())?;
        let (book, now) = (book.as_mut()?, self.clock.monotonic());
        if self.drains(member) {
            book.withhold(member, held, now);
            return Some(vec![]);
        }
        Some(book.beat(member, held, now))
    }

    /// Who holds which service address, if this metaserver leads.
    pub(crate) fn address_owners(&self) -> BTreeMap<IpAddr, Option<NodeId>> {
        self.book.0.lock().ok().and_then(|book| Some(book.as_ref()?.owners())).unwrap_or_default()
    }
}
