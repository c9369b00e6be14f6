// Screens whose script is loaded once somebody looks at them.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { T } from "./text";
import { Alert, Button } from "./ui";

// later is a screen that load brings. It may be gone when the server was updated since the page was loaded.
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let Found: ComponentType<P> | undefined;
  return function Later(props: P) {
    const [state, set] = useState<"wait" | "there" | "gone">("wait");
    useEffect(() => {
      if (Found) return;
      load().then(
        (found) => {
          Found = found;
          set("there");
        },
        () => set("gone"),
      );
    }, []);
    if (Found) return <Found {...props} />;
    if (state === "wait") return <p class="wait">{T.reading}</p>;
    return (
      <Alert>
        {T.updated} <Button onClick={() => location.reload()}>{T.reload}</Button>
      </Alert>
    );
  };
}
