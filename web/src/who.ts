// Who is logged in, and what they may.
import { signal } from "@preact/signals";
import type { GrantsView, ProfileView } from "./api";
import { call } from "./call";

export const profile = signal<ProfileView | null>(null);
export const grants = signal<GrantsView | null>(null);

export async function readWho(): Promise<void> {
  const found = await call("GET /v4/profile");
  // An unrestricted user may everything: the answer is empty.
  grants.value = found.restricted ? await call("GET /v4/profile/grants") : null;
  profile.value = found;
}

const free = () => profile.value !== null && !profile.value.restricted;

export const may = {
  account: () => free() || !!grants.value?.global.account_access,
  managed: () => free(),
  create: () => free() || !!grants.value?.global.add_databases,
  change: (database: number) => free() || grants.value?.database.find((g) => g.id === database)?.permissions === "read_write",
};
