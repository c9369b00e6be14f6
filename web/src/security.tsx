// The caller: its second factor, and its e-mail address.
import { useState } from "preact/hooks";
import type { FactorView } from "./api";
import { call } from "./call";
import { plain } from "./format";
import { T } from "./text";
import { Button, Card, Code, Dialog, Field, Once, Problems, Sure, Text, Time, useAction } from "./ui";
import { profile, readWho } from "./who";

export function Yourself() {
  return (
    <>
      <Factor />
      <Mail />
    </>
  );
}

function Mail() {
  const now = profile.value?.email ?? "";
  const [typed, setEmail] = useState<string>();
  const email = typed ?? now;
  const doing = useAction();
  const submit = (e: Event) => {
    e.preventDefault();
    void doing.run(() => call("PUT /v4/profile", { body: { email } }).then(readWho).then(() => setEmail(undefined)), T.settings.saved);
  };
  return (
    <Card title={T.account.mail} wide>
      <form noValidate onSubmit={submit}>
        <Text label={T.contacts.email} name="email" type="email" failure={doing.failure} value={email} set={setEmail} />
        <Problems failure={doing.failure} fields={["email"]} />
        <Button submit disabled={doing.busy || email === now}>
          {T.save}
        </Button>
      </form>
    </Card>
  );
}

function Factor() {
  const [made, setMade] = useState<FactorView>();
  const [codes, setCodes] = useState<string[]>();
  const [ending, setEnding] = useState(false);
  const doing = useAction();
  const on = profile.value?.two_factor_auth ?? false;
  return (
    <Card title={T.factor.title} wide>
      <p>{on ? T.factor.on : T.factor.off}</p>
      {codes && <Once text={T.factor.codes} secrets={[[T.factor.recovery, codes.join("\n")]]} close={() => setCodes(undefined)} />}
      <Problems failure={doing.failure} />
      {on ? (
        <Button kind="danger" onClick={() => setEnding(true)}>
          {T.factor.disable}
        </Button>
      ) : (
        <Button kind="main" disabled={doing.busy} onClick={() => void doing.run(async () => setMade(await call("POST /v4/profile/tfa-enable")))}>
          {T.factor.enable}
        </Button>
      )}
      {made && (
        <Confirm
          made={made}
          close={() => setMade(undefined)}
          done={(all) => {
            setCodes(all);
            void readWho();
          }}
        />
      )}
      {ending && (
        <Sure
          title={T.factor.disable}
          text={<p>{T.factor.disableText}</p>}
          action={T.factor.disable}
          kind="danger"
          close={() => setEnding(false)}
          run={async () => {
            await call("POST /v4/profile/tfa-disable");
            setCodes(undefined);
            await readWho();
          }}
        />
      )}
    </Card>
  );
}

function Confirm({ made, close, done }: { made: FactorView; close: () => void; done: (codes: string[]) => void }) {
  const [code, setCode] = useState("");
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const finished = await doing.run(async () => done((await call("POST /v4/profile/tfa-enable-confirm", { body: { tfa_code: code } })).recovery_codes));
    if (finished) close();
  };
  return (
    <Dialog title={T.factor.enable} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <p>{T.factor.scan}</p>
        <p>
          <img src={made.qr} width={240} height={240} alt={T.factor.picture} />
        </p>
        <Code what={T.factor.secret} text={made.secret} />
        <p class="hint">
          {T.factor.until} <Time at={made.expiry} />
        </p>
        <Field label={T.factor.code} name="tfa_code" failure={doing.failure}>
          {(p) => <input {...p} value={code} autocomplete="one-time-code" inputMode="numeric" onInput={(e) => setCode(plain(e.currentTarget.value))} />}
        </Field>
        <Problems failure={doing.failure} fields={["tfa_code"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.factor.confirm}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}
