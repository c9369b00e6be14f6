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
    state      text NOT NULL CONSTRAINT notices_state_check CHECK (state IN ('pending', 'sending', 'sent', 'failed')),
    -- The server that is sending it.
    holder     text NOT NULL DEFAULT '',
    attempts   integer NOT NULL DEFAULT 0,
    -- When to try next; while it is being sent, when its holder is taken for lost.
    due        timestamptz NOT NULL,
    -- When no further attempt is made.
    give_up    timestamptz NOT NULL,
    problem    text NOT NULL DEFAULT '',
    created    timestamptz NOT NULL,
    sent       timestamptz,
    CONSTRAINT notices_once UNIQUE (issue_id, kind, channel, recipient),
    CONSTRAINT notices_sent_check CHECK ((state = 'sent') = (sent IS NOT NULL))
);
CREATE INDEX notices_due ON notices (due, id) WHERE state IN ('pending', 'sending');
CREATE INDEX notices_failed ON notices (channel) WHERE state = 'failed';
CREATE INDEX notices_account ON notices (account_id, id);

-- +goose Down
DROP TABLE notices;
