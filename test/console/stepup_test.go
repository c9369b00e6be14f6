package console

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"
)

// stepUp has the password grow old before what destroys, makes a secret or changes how one logs in: without it nothing of that is done, and with it
// all.
func stepUp(t *testing.T, w *world) {
	conn, err := pgx.Connect(t.Context(), w.server.StoreURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	old := func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "UPDATE console_sessions SET confirmed = confirmed - interval '15 minutes'")
		return err
	}
	asked := `[...document.querySelectorAll("dialog[open] h2")].some(h => h.innerText === "Your password, please")`
	refused := both(until(asked), press("Cancel"), until("!"+asked), see("Not done: the password wasn't given."))
	given := both(until(asked), fill("Password", password), press("Go on"), until("!"+asked))
	dialog, closed := until(`document.querySelector("dialog[open]")`), both(press("Cancel"), until(`!document.querySelector("dialog")`))
	const at = "/console/databases/postgresql/1"

	// What destroys data, or stops who is connected.
	w.do(t, old, w.visit(at+"/settings"), press("Delete the database"), fill("Type again to go on", "again"), press("Delete the database"), refused, closed,
		press("Reset the password"), dialog, press("Reset the password"), refused, closed,
		w.visit(at+"/backups"), until(`document.querySelector("button[aria-label^='Restore the backup']")`), run(`document.querySelector("button[aria-label^='Restore the backup']").click()`), fill("Type again to go on", "again"), press("Restore"), refused, closed,
		press("Restore a moment"), fill("Type again to go on", "again"), press("Restore"), refused, closed)
	var now struct{ Status string }
	if status, body := w.server.Call("GET", "/v4/databases/postgresql/instances/1", nil, &now); status != http.StatusOK || now.Status != "active" {
		t.Errorf("without the password something was done: %d %s", status, body)
	}
	// A secret of staff's, which nothing brings back.
	const kept = "Credentials"
	w.do(t, w.visit("/console/machines/credentials"), press("Add a credential"), fill("Label", "safe"), fill("User name", "root"), fill("Password", "not told"), press("Save"), until(row(kept, "safe")),
		old, press("Delete safe"), fill("Type safe to go on", "safe"), press("Delete"), refused, until(row(kept, "safe")), press("Delete"), given, until("!"+row(kept, "safe")))
	// A token, which may do all that its user may.
	w.do(t, old, w.visit("/console/account/tokens"), press("Make a token"), fill("Label", "stolen"), press("Make a token"), refused, closed)
	if value[bool](t, w.browser, `document.querySelector("main").innerText.includes("stolen") || document.querySelector("main").innerText.includes("This is the token.")`) {
		t.Error("a token is made without the password")
	}
	// A second factor: its secret, its recovery codes, and its end.
	const secret, codes = `document.querySelector("dialog img")`, `document.querySelector("main").innerText.includes("These are your recovery codes")`
	w.do(t, w.visit("/console/account/security"), press("Set up a second factor"), refused, until("!"+secret), press("Set up a second factor"), given, until(secret+"?.naturalWidth === 240"))
	code, err := totp.GenerateCode(value[string](t, w.browser, `document.querySelector("dialog .code pre").innerText.trim()`), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.do(t, old, fill("Code", code), press("Confirm"), refused, until("!("+codes+")"), press("Confirm"), given, until(codes), press("I have it"), see("you are asked for a code of your authenticator"),
		old, press("Do without a second factor"), dialog, press("Do without a second factor"), refused, see("you are asked for a code of your authenticator"), press("Do without a second factor"), given, see("Your password alone logs you in."), until(`!document.querySelector("dialog")`))
}
