// SPDX-License-Identifier: Apache-2.0
#include "server/core/waiting_calls.h"

#include <algorithm>

#include "server/core/coordinator_job.h"

namespace redsum::server {
namespace {

using Group = WaitingCall::Group;

bool more_usual(const Group* left, const Group* right) {
  if (left->ranks.size() != right->ranks.size()) return left->ranks.size() > right->ranks.size();
  return left->ranks.front() < right->ranks.front();
}

std::string has_text(const std::vector<std::uint32_t>& ranks, const std::string& value) {
  return ranks_text(ranks) + (ranks.size() == 1 ? " has " : " have ") + value;
}

}  // namespace

WaitingCall& WaitingCalls::at(Sequence sequence) {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const auto& c) { return c.sequence == sequence; });
  if (found != calls_.end()) {
    calls_.splice(calls_.begin(), calls_, found);
    return calls_.front();
  }
  if (calls_.size() >= kMaxWaitingCalls) calls_.pop_back();
  WaitingCall& call = calls_.emplace_front();
  call.sequence = sequence;
  call.reported.resize(members_);
  return call;
}

WaitingCall* WaitingCalls::find(Sequence sequence) {
  for (WaitingCall& call : calls_)
    if (call.sequence == sequence) return &call;
  return nullptr;
}

void WaitingCalls::add(WaitingCall& call, std::uint32_t rank, const wire::CallDescription& description) {
  if (call.reported[rank]) return;
  call.reported[rank] = true;
  ++call.reports;
  auto group = std::find_if(call.groups.begin(), call.groups.end(),
                            [&](const Group& g) { return wire::difference(g.call, description).field.empty(); });
  if (group == call.groups.end()) group = call.groups.insert(group, Group{description, {}});
  group->ranks.insert(std::lower_bound(group->ranks.begin(), group->ranks.end(), rank), rank);
}

std::vector<std::uint32_t> WaitingCalls::missing(const WaitingCall& call) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < members_; ++rank)
    if (!call.reported[rank]) ranks.push_back(rank);
  return ranks;
}

TimeNs WaitingCalls::next_verdict() const {
  TimeNs next = kNever;
  for (const WaitingCall& call : calls_) next = std::min(next, call.verdict_at);
  return next;
}

WaitingCall* WaitingCalls::due(TimeNs now) {
  WaitingCall* first = nullptr;  // of several the lowest: later calls may be its echo
  for (WaitingCall& call : calls_)
    if (call.verdict_at <= now && (!first || call.sequence < first->sequence)) first = &call;
  return first;
}

std::string mismatch_text(const WaitingCall& call, const std::vector<std::uint32_t>& missing) {
  std::vector<const Group*> groups;
  for (const Group& group : call.groups) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(), [](auto* l, auto* r) { return l->ranks.front() < r->ranks.front(); });

  std::string text = "call " + std::to_string(call.sequence);
  if (groups.size() < 2) {
    text += " does not match: contributions differ at " + call.reporter;
    if (!groups.empty())
      text += ", though " + has_text(groups[0]->ranks, "the same call, " + groups[0]->call.to_string());
    if (!missing.empty()) text += "; " + ranks_text(missing) + " did not say what it was";
    return text;
  }
  // One clause per field that differs from the first group.
  const Group& first = *groups.front();
  std::string field;
  for (std::size_t i = 1; i < groups.size() && i < 16; ++i) {
    const wire::Difference d = wire::difference(first.call, groups[i]->call);
    if (d.field != field) {
      text += (field.empty() ? " differs in " : "; in ") + d.field + ": " + has_text(first.ranks, d.left);
      field = d.field;
    }
    text += ", " + has_text(groups[i]->ranks, d.right);
  }
  return text + " (" + first.call.to_string() + ")";
}

std::vector<std::uint32_t> odd_ranks(const WaitingCall& call) {
  std::vector<std::uint32_t> ranks;
  if (call.groups.size() < 2) return ranks;
  const Group* usual = &call.groups.front();
  for (const Group& group : call.groups)
    if (more_usual(&group, usual)) usual = &group;
  for (const Group& group : call.groups)
    if (&group != usual) ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace redsum::server
