// Addresses of the console's pages.
import { signal } from "@preact/signals";

export const route = signal(location.pathname);

export function go(to: string): void {
  if (to === location.pathname) return;
  history.pushState(null, "", to);
  route.value = location.pathname;
  scrollTo(0, 0);
}

export function startRoutes(): void {
  addEventListener("popstate", () => (route.value = location.pathname));
  document.addEventListener("click", (e) => {
    const link = (e.target as Element | null)?.closest?.("a");
    if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    if (link.origin !== location.origin || link.target || link.hasAttribute("download") || !link.pathname.startsWith("/console/")) return;
    if (link.hash && link.pathname === location.pathname) return;
    e.preventDefault();
    go(link.pathname);
  });
}
