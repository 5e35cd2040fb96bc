"""transporter models: what is shipped."""


def models(json: bool = False) -> None:
    """List the models that come with the package.

    Args:
        json: Print the cards as JSON instead of a table.
    """
    from transporter.cli.console import print_json, say, table
    from transporter.models.zoo import load, shipped

    detectors = {name: load(name, "cpu") for name in shipped()}
    if json:
        print_json({name: {**d.card, "model": d.config.to_json()} for name, d in detectors.items()})
    elif not detectors:
        say("No models are shipped with this version yet: train one with `transporter train`.")
    else:
        rows = [
            [name, str(d.keypoints), str(d.config.size), str(d.card.get("environment", ""))]
            for name, d in detectors.items()
        ]
        table("shipped models", ["name", "keypoints", "size", "environment"], rows)
