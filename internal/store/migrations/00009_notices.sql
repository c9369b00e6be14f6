-- +goose Up
-- What contacts are to be told: written with the issue, sent afterwards.
CREATE TABLE notices (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT notices_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT notices_account_fkey REFERENCES accounts (id),
    issue_id   bigint NOT NULL CONSTRAINT notices_issue_fkey REFERENCES issues (id) ON DELETE CASCADE,
    kind       text NOT NULL CONSTRAINT notices_kind_check CHECK (kind IN ('opened', 'recovered')),
    -- email, or the name of a channel of the operator's.
    channel    text NOT NULL,
    -- The address, or '' where the channel has its own.
    recipient  text NOT NULL,
    name       text NOT NULL,
    content    jsonb NOT NULL,
    state      text NOT NULL CONSTRAINT notices_state_check CHECK (state IN ('pending', 'sent', 'failed')),
    attempts   integer NOT NULL DEFAULT 0,
    due        timestamptz NOT NULL,
    problem    text NOT NULL DEFAULT '',
    created    timestamptz NOT NULL,
    sent       timestamptz,
    CONSTRAINT notices_once UNIQUE (issue_id, kind, channel, recipient)
);
CREATE INDEX notices_due ON notices (due) WHERE state = 'pending';
CREATE INDEX notices_account ON notices (account_id, id);

-- +goose Down
DROP TABLE notices;
