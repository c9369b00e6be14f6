// The console: its frame, and which screen an address is.
import { render, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { calls, logOut, post, wanted } from "./call";
import { Contacts } from "./contacts";
import { Create, curl } from "./create";
import { Database } from "./database";
import { Databases } from "./databases";
import { isEngine } from "./db";
import { Drawer, Events } from "./events";
import { First } from "./first";
import { plain } from "./format";
import { Home } from "./home";
import { Issue, Issues } from "./issues";
import { later } from "./later";
import { Machines } from "./managed";
import { connected, startLive, underWay } from "./live";
import { route, startRoutes } from "./route";
import { AddService, Service, Services } from "./services";
import { StatusPages } from "./statuspages";
import { T } from "./text";
import { Alert, Button, Code, Dialog, Field, FormDialog, Page, Said } from "./ui";
import { profile, readWho } from "./who";

const Account = later(() => import("./account").then((m) => m.Account));
const Alerts = later(() => import("./alerts").then((m) => m.Alerts));
const Operator = later(() => import("./operator").then((m) => m.Operator));

function isID(text: string | undefined): boolean {
  return /^[1-9]\d*$/.test(text ?? "");
}

function screen(path: string): ComponentChildren {
  const parts = path.replace(/^\/console\/?/, "").split("/").filter(Boolean);
  const [area, second, third, tab] = parts;
  if (area === undefined) return <Home />;
  if (area === "databases" && parts.length === 1) return <Databases />;
  if (area === "databases" && second === "create" && parts.length === 2) return <Create />;
  if (area === "databases" && isEngine(second) && isID(third) && parts.length <= 4) {
    return <Database key={path.split("/").slice(0, 5).join("/")} engine={second} id={Number(third)} tab={tab ?? ""} />;
  }
  if (area === "events" && parts.length === 1) return <Events />;
  if (area === "services" && parts.length === 1) return <Services />;
  if (area === "services" && second === "add" && parts.length === 2) return <AddService />;
  if (area === "services" && parts.length === 2 && isID(second)) return <Service key={path} id={Number(second)} />;
  if (area === "issues" && parts.length === 1) return <Issues />;
  if (area === "issues" && parts.length === 2 && isID(second)) return <Issue key={path} id={Number(second)} />;
  if (area === "alerts" && parts.length <= 2) return <Alerts tab={second ?? ""} />;
  if (area === "contacts" && parts.length === 1) return <Contacts />;
  if (area === "status-pages" && parts.length === 1) return <StatusPages />;
  if (area === "machines" && parts.length <= 2) return <Machines tab={second ?? ""} />;
  if (area === "account" && parts.length <= 2) return <Account tab={second ?? ""} />;
  if (area === "operator" && parts.length <= 2) return <Operator tab={second ?? ""} />;
  return (
    <Page title={T.nothing}>
      <p>
        <a href="/console/">{T.toHome}</a>
      </p>
    </Page>
  );
}

const areas: [string, string][] = [
  ["/console/", T.nav.home],
  ["/console/databases", T.nav.databases],
  ["/console/services", T.nav.services],
  ["/console/issues", T.nav.issues],
  ["/console/alerts", T.nav.alerts],
  ["/console/contacts", T.nav.contacts],
  ["/console/status-pages", T.nav.pages],
  ["/console/machines", T.nav.machines],
  ["/console/events", T.nav.events],
  ["/console/account", T.nav.account],
];

const operators: [string, string] = ["/console/operator", T.nav.operator];

function Frame() {
  const path = route.value;
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    // A new screen is read from its heading on.
    if (before.current !== path) main.current?.querySelector<HTMLElement>("h1")?.focus();
    before.current = path;
  }, [path]);
  const [failed, setFailed] = useState(false);
  const [menu, setMenu] = useState(false);
  const [drawer, setDrawer] = useState(false);
  const [showCalls, setShowCalls] = useState(false);
  useEffect(() => {
    readWho().then(startLive, () => setFailed(true));
  }, []);
  useEffect(() => {
    setMenu(false);
    setDrawer(false);
  }, [path]);
  const known = failed || profile.value !== null;
  return (
    <>
      <a class="skip" href="#main">
        {T.skip}
      </a>
      <header>
        <a class="brand" href="/console/">
          steward
        </a>
        <button type="button" class="menu" aria-expanded={menu} aria-controls="nav" onClick={() => setMenu(!menu)}>
          {T.nav.menu}
        </button>
        <nav id="nav" class={menu ? "open" : undefined} aria-label={T.nav.label}>
          {/* Only once it is known which links there are: a link that comes later moves what stands below. */}
          {known && [...areas, ...(profile.value?.operator ? [operators] : [])].map(([to, text]) => (
            <a key={to} href={to} aria-current={(to === "/console/" ? path === to : path.startsWith(to)) ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
        {known && (
          <button type="button" class="activity" aria-haspopup="dialog" aria-label={T.drawer.title} title={T.drawer.count(underWay.value.size)} onClick={() => setDrawer(true)}>
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <polyline points="1,8 4,8 6,2 10,14 12,8 15,8" />
            </svg>
            {underWay.value.size > 0 && <span class="count">{underWay.value.size}</span>}
          </button>
        )}
        {known && (
          <div class="who">
            {profile.value && <span>{plain(profile.value.username)}</span>}
            <Button onClick={() => setShowCalls(true)}>{T.calls.show}</Button>
            <Button onClick={() => void logOut()}>{T.logOut}</Button>
          </div>
        )}
      </header>
      <div role="status">{connected.value === false && <Alert kind="warn">{T.away}</Alert>}</div>
      <main id="main" ref={main} tabIndex={-1}>
        {failed ? <Alert>{T.unreachable}</Alert> : profile.value ? screen(path) : <p class="wait">{T.reading}</p>}
      </main>
      <Said />
      {wanted.value && <Confirm />}
      {drawer && <Drawer close={() => setDrawer(false)} />}
      {showCalls && <Calls close={() => setShowCalls(false)} />}
    </>
  );
}

// Confirm asks for the password before what only its owner may do.
function Confirm() {
  const [password, setPassword] = useState("");
  const waiting = wanted.value;
  const done = () => (wanted.value = null);
  const save = () =>
    post("confirm", { password }).then(() => {
      done();
      waiting?.given();
    });
  const cancel = () => {
    wanted.value?.refused();
    done();
  };
  return (
    <FormDialog title={T.confirm.title} action={T.confirm.go} fields={["password"]} close={cancel} save={save}>
      {(failure) => (
        <>
          <p>{T.confirm.text}</p>
          <input type="text" name="username" autocomplete="username" value={profile.value?.username} hidden readOnly />
          <Field label={T.first.password} name="password" failure={failure}>
            {(p) => <input {...p} type="password" autocomplete="current-password" required value={password} onInput={(e) => setPassword(e.currentTarget.value)} />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}

// Calls shows how to do by hand what was done here.
function Calls({ close }: { close: () => void }) {
  return (
    <Dialog title={T.calls.title} close={close}>
      <p>{T.calls.text}</p>
      {calls.value.length === 0 && <p>{T.calls.none}</p>}
      {calls.value.map((c, i) => (
        <Code key={i} what={`${c.method} ${c.path}`} text={curl(c.method, c.path, c.body === undefined ? undefined : JSON.parse(c.body))} />
      ))}
      <div class="actions">
        <Button onClick={close}>{T.close}</Button>
      </div>
    </Dialog>
  );
}

startRoutes();
const root = document.getElementById("root");
if (root) {
  root.replaceChildren();
  render(route.value === "/console/first" ? <main class="notice"><First /></main> : <Frame />, root);
}
