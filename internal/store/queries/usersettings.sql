-- name: UserGlobals :one
SELECT globals FROM user_settings WHERE user_id = @user_id;

-- name: UserGlobalsSet :exec
INSERT INTO user_settings (user_id, globals) VALUES (@user_id, @globals)
ON CONFLICT ON CONSTRAINT user_settings_pkey DO UPDATE SET globals = excluded.globals;

-- name: UserPreferences :one
SELECT preferences FROM user_settings WHERE user_id = @user_id;

-- name: UserPreferencesSet :exec
INSERT INTO user_settings (user_id, preferences) VALUES (@user_id, @preferences)
ON CONFLICT ON CONSTRAINT user_settings_pkey DO UPDATE SET preferences = excluded.preferences;
