package api

import (
	"context"
	"net/http"
)

type sshKeyView struct {
	SSHKey string `json:"ssh_key" doc:"A line for an authorized_keys file. Support staff log in with its private half, which never leaves the server."`
}

func (a *API) registerSSHKeys() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/managed/credentials/sshkey", id: "viewSSHKey",
		summary: "View the public SSH key of the account's managed service", tag: "Managed credentials", scope: readAccount,
	},
		func(ctx context.Context, c call[none, none]) (sshKeyView, error) {
			key, err := a.Control.SSHKeys.View(ctx, c.Principal)
			return sshKeyView{key}, err
		})
}
