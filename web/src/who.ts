// Who is logged in, and what they may.
import { signal } from "@preact/signals";
import type { GrantsView, ProfileView } from "./api";
import { call } from "./call";

export const profile = signal<ProfileView | null>(null);
export const grants = signal<GrantsView | null>(null);

// asked counts the questions, and known is the one whose answer is known: that of an earlier one may come later.
let asked = 0;
let known = 0;

export async function readWho(): Promise<void> {
  const mine = ++asked;
  const found = await call("GET /v4/profile");
  // An unrestricted user may everything: the answer is empty.
  const granted = found.restricted ? await call("GET /v4/profile/grants") : null;
  if (mine < known) return;
  known = mine;
  grants.value = granted;
  profile.value = found;
}

const free = () => profile.value !== null && !profile.value.restricted;

export const may = {
  account: () => free() || !!grants.value?.global.account_access,
  managed: () => free(),
  create: () => free() || !!grants.value?.global.add_databases,
  change: (database: number) => free() || grants.value?.database.find((g) => g.id === database)?.permissions === "read_write",
};
