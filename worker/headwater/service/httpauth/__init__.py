"""Who may ask a worker by HTTP, in a pod.

judging      pure: a token that was shown, what is known of tokens -> a refusal or none
jwt          pure: tokens that the API server has signed
keys         the API server's public keys, fetched by a thread
guard        the files of a Secret, read anew when they change; what the HTTP server asks
"""
