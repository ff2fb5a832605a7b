//! Chains in the model.

use namespace::*;

use super::{Outcome, Plain};

impl Plain {
    /// Data server that has the target.
    pub fn server_of(&self, target: TargetId) -> Option<&DataServer> {
        self.servers.values().find(|server| server.targets.contains(&target))
    }

    /// The chain with members away whose process is another one now.
    pub fn present_chain(&self, chain: &Chain) -> Chain {
        let mut present = chain.clone();
        for member in &mut present.members {
            if self.server_of(member.target).is_none_or(|server| server.process != member.process) {
                member.state = MemberState::Away;
            }
        }
        present
    }

    pub(super) fn make_chains(&mut self, chains: Vec<NewChain>) -> Outcome {
        for NewChain { id, targets } in &chains {
            let is_taken = self.chains.contains_key(id) || self.server_of(TargetId(id.0)).is_some();
            if is_taken || !(2..=COPIES_MAX).contains(&targets.len()) {
                return Err(Error::Invalid);
            }
            let mut members: Vec<ChainMember> = Vec::new();
            let pool = self.pool_of(targets[0]);
            for target in targets {
                let server = self.server_of(*target).ok_or(Error::NoDevice)?;
                let is_beside = members.iter().any(|other| server.targets.contains(&other.target));
                if is_beside || self.pool_of(*target) != pool {
                    return Err(Error::Invalid);
                }
                let (state, since) = (MemberState::In, self.now);
                members.push(ChainMember { target: *target, state, process: server.process, since });
            }
            let verifier = self.random;
            let copies = members.len() as u8;
            let chain = Chain { id: *id, version: 1, verifier, copies, members, leaving: None, pool };
            self.chains.insert(*id, chain);
            self.map_head.chains += 1;
        }
        self.map_head.version += 1;
        Ok(Reply::Done)
    }

    pub(super) fn open_chains(&mut self, chains: Vec<OpenChain>) -> Outcome {
        for OpenChain { id, target, copies } in chains {
            let is_taken = self.chains.contains_key(&id) || self.server_of(TargetId(id.0)).is_some();
            if is_taken || copies == 0 || usize::from(copies) > COPIES_MAX {
                return Err(Error::Invalid);
            }
            let process = self.server_of(target).ok_or(Error::NoDevice)?.process;
            let members = vec![ChainMember { target, state: MemberState::In, process, since: self.now }];
            let (verifier, leaving) = (self.random, Some(target));
            let pool = self.pool_of(target);
            self.chains.insert(id, Chain { id, version: 1, verifier, copies, members, leaving, pool });
            self.map_head.chains += 1;
        }
        self.map_head.version += 1;
        Ok(Reply::Done)
    }

    pub(super) fn change_chains(&mut self, changes: &[ChainChange]) -> Outcome {
        let mut is_news = false;
        for change in changes {
            let Some(recorded) = self.chains.get(&change.chain).filter(|c| c.version == change.version)
            else {
                continue;
            };
            let Some(mut chain) = self.stepped(recorded, change.step) else { continue };
            chain.version += u32::from(change.step != ChainStep::Doubt);
            let rank = |member: &ChainMember| member.state as u8;
            chain.members.sort_by_key(rank);
            self.chains.insert(chain.id, chain);
            is_news = true;
        }
        self.map_head.version += u64::from(is_news);
        Ok(Reply::Done)
    }

    fn stepped(&self, recorded: &Chain, step: ChainStep) -> Option<Chain> {
        let mut chain = self.present_chain(recorded);
        let is_headless = chain.members.iter().all(|m| m.state != MemberState::In);
        if is_headless
            && let ChainStep::Close | ChainStep::Closed | ChainStep::Copies(_) | ChainStep::Pool(_) = step
        {
            return None;
        }
        let state =
            |chain: &Chain, target| chain.members.iter().find(|m| m.target == target).map(|m| m.state);
        let others_in =
            |target| chain.members.iter().any(|m| m.target != target && m.state == MemberState::In);
        let mut target = match step {
            ChainStep::Leave(target)
            | ChainStep::Return(target)
            | ChainStep::Complete(target)
            | ChainStep::Lead(target)
            | ChainStep::Replace(target, _) => target,
            ChainStep::Move(from, to) => {
                let is_in = state(&chain, from) == Some(MemberState::In);
                if !is_in || chain.members.len() != usize::from(chain.copies) {
                    return None;
                }
                let mut chain = self.stepped(recorded, ChainStep::Add(to))?;
                chain.leaving = Some(from);
                return Some(chain);
            }
            ChainStep::Add(target) => {
                let process = self.server_of(target)?.process;
                let is_full = chain.members.len() > usize::from(chain.copies);
                let is_open = chain.members.len() == 1 && chain.leaving.is_some();
                if is_full || is_open || state(&chain, target).is_some() || !others_in(target) {
                    return None;
                }
                let (state, since) = (MemberState::Refilling, self.now);
                chain.members.push(ChainMember { target, state, process, since });
                return Some(chain);
            }
            ChainStep::Close => {
                let is_open = chain.leaving == Some(chain.members[0].target) && chain.members.len() == 1;
                chain.leaving = Some(TargetId(0));
                return is_open.then_some(chain);
            }
            ChainStep::Closed => {
                let [ChainMember { target, .. }] = chain.members[..] else { return None };
                let is_closing = chain.leaving.is_some_and(|leaving| leaving != target);
                chain.leaving = None;
                return is_closing.then_some(chain);
            }
            ChainStep::Copies(copies) => {
                let is_ready = chain.members.len() > 1 || chain.leaving.is_none();
                let is_more = copies > chain.copies && copies <= 3;
                (chain.copies, chain.leaving) = (copies, None);
                return (is_ready && is_more).then_some(chain);
            }
            ChainStep::Pool(pool) => {
                let is_there = chain.members.iter().any(|m| self.pool_of(m.target) == pool);
                let is_other = chain.pool != pool;
                chain.pool = pool;
                return (is_there && is_other).then_some(chain);
            }
            ChainStep::Doubt => {
                let mut chain = recorded.clone();
                for member in &mut chain.members {
                    if member.state == MemberState::In {
                        member.state = MemberState::Doubted;
                    }
                }
                if chain.members.len() > 1 {
                    chain.leaving = None;
                }
                return Some(chain);
            }
            ChainStep::Adopt(named, version) => return self.adopted(recorded, &named, version),
            ChainStep::Drop(target) => {
                state(&chain, target)?;
                chain.members.retain(|m| m.target != target);
                chain.leaving = None;
                let rest = chain.members.iter().filter(|m| m.state == MemberState::In).count();
                return (rest >= usize::from(chain.copies)).then_some(chain);
            }
        };
        let (now, before) = (state(&chain, target)?, state(recorded, target)?);
        let to = match step {
            ChainStep::Leave(_) if before != MemberState::Away && others_in(target) => MemberState::Away,
            ChainStep::Return(_) if now == MemberState::Away && others_in(target) => MemberState::Refilling,
            ChainStep::Complete(_) if now == MemberState::Refilling => MemberState::In,
            ChainStep::Lead(_)
                if before == MemberState::In && chain.members.iter().all(|m| m.state != MemberState::In) =>
            {
                chain.verifier = self.random;
                MemberState::In
            }
            ChainStep::Replace(_, by)
                if now == MemberState::Away && others_in(target) && state(&chain, by).is_none() =>
            {
                self.server_of(by)?;
                chain.members.iter_mut().find(|m| m.target == target)?.target = by;
                target = by;
                MemberState::Refilling
            }
            _ => return None,
        };
        let process = self.server_of(target).map(|server| server.process);
        let since = self.now;
        let member = chain.members.iter_mut().find(|m| m.target == target)?;
        let process = if to == MemberState::Away { process.unwrap_or(member.process) } else { process? };
        *member = ChainMember { target, state: to, process, since };
        Some(chain)
    }

    fn adopted(&self, recorded: &Chain, named: &[Option<TargetId>], version: u32) -> Option<Chain> {
        let is_doubted = recorded.members.iter().any(|m| m.state == MemberState::Doubted);
        if recorded.head().is_some() || !is_doubted || version > 1 << 31 {
            return None;
        }
        let named: Vec<TargetId> = named.iter().filter_map(|target| *target).collect();
        let mut members = Vec::<ChainMember>::new();
        for (at, target) in named.iter().copied().chain(recorded.members.iter().map(|m| m.target)).enumerate()
        {
            let server = self.server_of(target);
            if at == 0 {
                server?;
            }
            let is_beside = members.iter().any(|m| {
                m.target == target
                    || server.is_some() && self.server_of(m.target).map(|s| s.id) == server.map(|s| s.id)
            });
            let is_wanted = members.len() < usize::from(recorded.copies) || members.len() < named.len();
            if is_wanted && !is_beside {
                let state = if at == 0 { MemberState::In } else { MemberState::Away };
                let process = server.map_or(0, |server| server.process);
                members.push(ChainMember { target, state, process, since: self.now });
            }
        }
        let (verifier, version) = (self.random, version.max(recorded.version) / 65_536 * 65_536 + 65_535);
        let leaving = recorded.leaving.filter(|_| members.len() == 1);
        Some(Chain { verifier, version, members, leaving, ..recorded.clone() })
    }
}
