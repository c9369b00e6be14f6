-- +goose Up
-- Users who may do by the API what the installation's operator does.
CREATE TABLE operators (
    user_id bigint PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    created timestamptz NOT NULL
);

-- +goose Down
DROP TABLE operators;
