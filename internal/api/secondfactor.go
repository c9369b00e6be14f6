package api

import (
	"context"
	"net/http"
)

type factorView struct {
	Secret string `json:"secret" doc:"For authenticators that can't read the picture."`
	Expiry string `json:"expiry" format:"date-time" doc:"Until when it can be confirmed."`
	// Beyond what the cloud's API has.
	URL string `json:"url" doc:"The same as an otpauth URL."`
	QR  string `json:"qr" doc:"The URL as a picture: a data URL of a PNG."`
}

type factorConfirm struct {
	Code string `json:"tfa_code" minLength:"6" maxLength:"64" doc:"What the authenticator shows."`
}

type scratchView struct {
	Scratch string `json:"scratch" doc:"The first of the recovery codes."`
	// Beyond what the cloud's API has.
	Codes []string `json:"recovery_codes" nullable:"false" doc:"Each serves once in place of a code."`
}

func (a *API) registerSecondFactor() {
	logins := a.Control.Logins
	const tag = "Profile"
	register(a, endpoint{method: http.MethodPost, path: "/v4/profile/tfa-enable", id: "startSecondFactor", summary: "Make the secret of a second factor, which counts once it was confirmed", tag: tag, scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[none, none]) (factorView, error) {
			made, err := logins.StartFactor(ctx, c.Principal)
			return factorView{made.Secret, showTime(made.Expiry), made.URL, made.Picture}, err
		})
	register(a, endpoint{method: http.MethodPost, path: "/v4/profile/tfa-enable-confirm", id: "confirmSecondFactor", summary: "Log in with a second factor from now on", tag: tag, scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[none, factorConfirm]) (scratchView, error) {
			codes, err := logins.ConfirmFactor(ctx, c.Principal, c.Body.Code, c.Faults)
			if err != nil {
				return scratchView{}, err
			}
			return scratchView{codes[0], codes}, nil
		})
	register(a, endpoint{method: http.MethodPost, path: "/v4/profile/tfa-disable", id: "disableSecondFactor", summary: "Log in without a second factor from now on", tag: tag, scope: writeAccount, own: true},
		func(ctx context.Context, c call[none, none]) (empty, error) {
			return empty{}, logins.DisableFactor(ctx, c.Principal)
		})
}
