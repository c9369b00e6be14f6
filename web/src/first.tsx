// The first password, by a link that works once.
import { useState } from "preact/hooks";
import { post } from "./call";
import { T } from "./text";
import { Alert, Button, Card, Field, Page, Problems, useAction } from "./ui";

// The secret leaves the address at once, and is nowhere but here.
const secret = location.pathname === "/console/first" ? location.hash.slice(1) : "";
if (secret) history.replaceState(null, "", location.pathname);

export function First() {
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [differ, setDiffer] = useState(false);
  const doing = useAction();
  if (!secret) {
    return (
      <Page title={T.first.title}>
        <Alert kind="warn">{T.first.noLink}</Alert>
        <p>
          <a href="/console/login" target="_self">
            {T.logIn}
          </a>
        </p>
      </Page>
    );
  }
  const submit = async (e: Event) => {
    e.preventDefault();
    setDiffer(password !== again);
    if (password !== again) return;
    if (await doing.run(() => post("first", { link: secret, password }))) location.assign("/console/login");
  };
  return (
    <Page title={T.first.title}>
      <Card title={T.first.set}>
        <p>{T.first.text}</p>
        <form onSubmit={(e) => void submit(e)}>
          <Field label={T.first.password} name="password" failure={doing.failure} hint={T.first.hint}>
            {(p) => <input {...p} type="password" autocomplete="new-password" required maxLength={128} value={password} onInput={(e) => setPassword(e.currentTarget.value)} />}
          </Field>
          <Field label={T.first.again} name="again">
            {(p) => <input {...p} type="password" autocomplete="new-password" required maxLength={128} value={again} onInput={(e) => setAgain(e.currentTarget.value)} />}
          </Field>
          {differ && <Alert>{T.first.differ}</Alert>}
          <Problems failure={doing.failure} fields={["password"]} />
          <Button submit kind="main" disabled={doing.busy}>
            {T.first.set}
          </Button>
        </form>
      </Card>
    </Page>
  );
}
